// WorkerNews: what a worker tells of itself now and then, beside its gradients: how training goes, and its statistics
// of batch normalisation, which evaluation needs.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {

struct WorkerNews {
  int worker = 0;
  double samples = 0, steps = 0;                                // since it began; steps of its own count, too
  double loss_sum = 0, correct = 0;                             // over these samples
  float rate = 0;                                               // of its last step
  float compute_ms = 0, push_ms = 0, wait_ms = 0, pull_ms = 0;  // of a step, means since it began
  std::vector<float> statistics;

  static constexpr size_t kFigures = 14;

  std::vector<float> to_numbers() const {
    std::vector<float> numbers = {static_cast<float>(worker)};
    for (const double sum : {samples, steps, loss_sum, correct}) {  // in two floats: sums have more digits than one
      const auto high = static_cast<float>(sum);
      numbers.insert(numbers.end(), {high, static_cast<float>(sum - static_cast<double>(high))});
    }
    numbers.insert(numbers.end(), {rate, compute_ms, push_ms, wait_ms, pull_ms});
    numbers.insert(numbers.end(), statistics.begin(), statistics.end());
    return numbers;
  }
  // Why numbers that a worker sent are no news, for people; empty: they are. `statistics`: how many the model has. Who
  // knows the run's token may be a worker, and may be a broken one.
  static std::string why_no_news(std::span<const float> numbers, size_t statistics) {
    if (numbers.size() != kFigures + statistics)
      return fmt::format("{} numbers, not {}", numbers.size(), kFigures + statistics);
    const auto odd = std::ranges::find_if(numbers, [](float number) { return !std::isfinite(number); });
    if (odd != numbers.end()) return fmt::format("number {} is {}", odd - numbers.begin(), *odd);
    if (numbers[0] < 0 || numbers[0] > 1e6f) return fmt::format("there can be no worker {}", numbers[0]);
    return "";
  }
  // REQUIRES: why_no_news() found nothing
  static WorkerNews from_numbers(std::span<const float> numbers) {
    if (numbers.size() < kFigures) throw PeerError("a worker's news are too short: is it of another version?");
    const auto sum = [&](size_t at) { return static_cast<double>(numbers[at]) + static_cast<double>(numbers[at + 1]); };
    return {.worker = static_cast<int>(numbers[0]),
            .samples = sum(1),
            .steps = sum(3),
            .loss_sum = sum(5),
            .correct = sum(7),
            .rate = numbers[9],
            .compute_ms = numbers[10],
            .push_ms = numbers[11],
            .wait_ms = numbers[12],
            .pull_ms = numbers[13],
            .statistics = {numbers.begin() + kFigures, numbers.end()}};
  }
};

}  // namespace paceline
