#include "paceline/train/run_costs.h"

#include <algorithm>
#include <array>

#include "paceline/collectives/group_text.h"

namespace paceline {

RunCosts::RunCosts(Group& group, const std::string& host, std::vector<double> slowdowns)
    : group_(group),
      stragglers_(gather_texts(group, host), std::move(slowdowns)),
      totals_(static_cast<size_t>(group.size())) {}

RunCosts::Window RunCosts::close_window() {
  std::array<double, 6> mine = {static_cast<double>(window_.steps),
                                window_.step_s,
                                window_.compute_s,
                                window_.communication_s,
                                window_.waiting_s,
                                static_cast<double>(window_samples_)};
  std::vector<double> all(mine.size() * totals_.size());
  group_.all_gather(view(std::span<double>(mine)), view(all));
  std::vector<StepCosts> ranks;
  std::vector<double> compute_s, samples;
  for (size_t rank = 0; rank < totals_.size(); ++rank) {
    const double* numbers = all.data() + rank * mine.size();
    ranks.push_back({static_cast<int64_t>(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4]});
    compute_s.push_back(numbers[2] / std::max(numbers[0], 1.0));
    samples.push_back(numbers[5]);
    totals_[rank] += ranks.back();
  }
  window_ = {};
  window_samples_ = 0;
  constexpr double kAlike = 0.9;
  const bool comparable = std::ranges::min(samples) >= kAlike * std::ranges::max(samples);
  return {group_costs(ranks), comparable ? stragglers_.observe(compute_s) : std::nullopt};
}

GroupCosts RunCosts::total() const { return group_costs(totals_); }

}  // namespace paceline
