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
  float loss = -1, accuracy = -1;                               // means over the samples since the last news
  float samples = 0, steps = 0;                                 // since it began; steps of its own count, too
  float compute_ms = 0, push_ms = 0, wait_ms = 0, pull_ms = 0;  // of a step, means since it began
  std::vector<float> statistics;

  static constexpr size_t kFigures = 8;

  std::vector<float> to_numbers() const {
    std::vector<float> numbers = {loss, accuracy, samples, steps, compute_ms, push_ms, wait_ms, pull_ms};
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
    return "";
  }
  static WorkerNews from_numbers(std::span<const float> numbers) {
    if (numbers.size() < kFigures) throw PeerError("a worker's news are too short: is it of another version?");
    return {.loss = numbers[0],
            .accuracy = numbers[1],
            .samples = numbers[2],
            .steps = numbers[3],
            .compute_ms = numbers[4],
            .push_ms = numbers[5],
            .wait_ms = numbers[6],
            .pull_ms = numbers[7],
            .statistics = {numbers.begin() + kFigures, numbers.end()}};
  }
};

}  // namespace paceline
