#include "paceline/schedule/schedule_chart.h"

#include <algorithm>
#include <cmath>

#include "paceline/core/check.h"
#include "paceline/metrics/line_chart.h"

namespace paceline {
namespace {

constexpr int kPoints = 300;  // one for two or three pixels: smooth, and never several in a column with a jump

// The curve from 0 to the end. At a change it has two points, just before and at it, so that a jump is upright.
Series curve(const SchedulePlan& plan, const Schedule& value) {
  Series series;
  auto change = std::ranges::upper_bound(plan.changes, 0.0);
  for (int i = 0; i <= kPoints; ++i) {
    const double epoch = i == kPoints ? plan.epochs : plan.epochs * i / kPoints;
    for (; change != plan.changes.end() && *change <= epoch && *change < plan.epochs; ++change) {
      series.points.emplace_back(*change, value(std::nextafter(*change, 0.0)));
      series.points.emplace_back(*change, value(*change));
    }
    series.points.emplace_back(epoch, value(epoch));
  }
  return series;
}

}  // namespace

std::string schedule_chart_svg(const SchedulePlan& plan) {
  CHECK_GT(plan.epochs, 0.0);
  CHECK_TRUE(std::ranges::is_sorted(plan.changes), "changes of a plan");
  const Schedule batch = [&](double epoch) { return static_cast<double>(plan.batch.at(epoch)); };
  return stacked_chart_svg(plan.title,  // the titles say what stands on the left: long numbers need that room
                           {{"Learning rate", "", "", {curve(plan, plan.rate)}, plan.changes},
                            {"Momentum", "", "", {curve(plan, plan.momentum)}, plan.changes},
                            {"Samples in a global batch", "epoch", "", {curve(plan, batch)}, plan.changes}});
}

}  // namespace paceline
