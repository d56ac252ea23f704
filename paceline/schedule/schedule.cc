#include "paceline/schedule/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "paceline/core/check.h"

namespace paceline {
namespace {

// The share of the way that is done, in [0, 1].
double progress(double epoch, double epochs) { return std::clamp(epoch / epochs, 0.0, 1.0); }

// `from` at share 1, `to` at share 0, exactly: a rate that is meant to end at 0 ends at 0.
double blend(double from, double to, double share) { return from * share + to * (1 - share); }

}  // namespace

double scaled_rate(double rate, int64_t batch, int64_t reference_batch) {
  CHECK_GT(reference_batch, 0);
  return rate * (static_cast<double>(batch) / static_cast<double>(reference_batch));
}

Schedule constant(double rate) {
  return [=](double) { return rate; };
}

Schedule step(double base, std::vector<double> milestones, double factor) {
  CHECK_TRUE(std::ranges::is_sorted(milestones), "milestones of a step schedule");
  return [=, milestones = std::move(milestones)](double epoch) {
    const auto reached = std::ranges::upper_bound(milestones, epoch) - milestones.begin();
    return base * std::pow(factor, static_cast<double>(reached));
  };
}

Schedule exponential(double base, double factor) {
  return [=](double epoch) { return base * std::pow(factor, std::max(epoch, 0.0)); };
}

Schedule polynomial(double base, double epochs, double power, double end) {
  CHECK_GT(epochs, 0.0);
  CHECK_GT(power, 0.0);
  return [=](double epoch) { return blend(base, end, std::pow(1 - progress(epoch, epochs), power)); };
}

Schedule cosine(double base, double epochs, double end) {
  CHECK_GT(epochs, 0.0);
  return [=](double epoch) { return blend(base, end, (1 + std::cos(std::numbers::pi * progress(epoch, epochs))) / 2); };
}

Schedule starting_at(double start, Schedule schedule) {
  return [=, schedule = std::move(schedule)](double epoch) { return schedule(epoch - start); };
}

Schedule in_phases(std::vector<double> milestones, std::vector<Schedule> schedules) {
  CHECK_TRUE(std::ranges::is_sorted(milestones), "milestones of phases");
  CHECK_EQ(schedules.size(), milestones.size() + 1);
  return [milestones = std::move(milestones), schedules = std::move(schedules)](double epoch) {
    const auto reached = std::ranges::upper_bound(milestones, epoch) - milestones.begin();
    return schedules[static_cast<size_t>(reached)](epoch);
  };
}

Schedule with_warmup(double epochs, double from, Schedule after) {
  CHECK_GE(epochs, 0.0);
  const double reached = after(epochs);
  return with_warmup(epochs, from, reached, std::move(after));
}

Schedule with_warmup(double epochs, double from, double to, Schedule after) {
  CHECK_GE(epochs, 0.0);
  return [=, after = std::move(after)](double epoch) {
    return epochs > 0 && epoch < epochs ? blend(to, from, progress(epoch, epochs)) : after(epoch);
  };
}

}  // namespace paceline
