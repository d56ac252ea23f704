#include "paceline/collectives/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "paceline/collectives/all_reduce.h"

namespace paceline {
namespace {

constexpr DType kReduced[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64};
constexpr uint64_t kSmallest = 256;
constexpr uint64_t kLargest = uint64_t{1} << 30;
constexpr double kTie = 1.03;
constexpr double kClearly = 1.05;

struct Choice {
  std::string algorithm;
  double seconds = 0;
};

// All that apply; only the measured ones where a profile knows any.
std::vector<Choice> choices(const Cluster& cluster, Grid grid, const Profile* profile, DType dtype, uint64_t bytes) {
  std::vector<Choice> measured, predicted;
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) {
    if (!algorithm.applies(cluster)) continue;
    const auto model = [&](double size) { return algorithm.cost(cluster, grid, size).seconds; };
    predicted.push_back({algorithm.name, model(static_cast<double>(bytes))});
    if (profile == nullptr) continue;
    if (const auto seconds = measured_seconds(*profile, algorithm.name, dtype, bytes, model))
      measured.push_back({algorithm.name, *seconds});
  }
  return measured.empty() ? predicted : measured;
}

std::string choose(const std::vector<Choice>& choices, const std::string& below) {
  const Choice& quickest = std::ranges::min(choices, {}, &Choice::seconds);
  // The engine's own is what people compare with: another one must be clearly quicker.
  const auto native = std::ranges::find(choices, "native", &Choice::algorithm);
  if (native != choices.end() && native->seconds <= kClearly * quickest.seconds) return native->algorithm;
  const auto same = std::ranges::find(choices, below, &Choice::algorithm);
  if (same != choices.end() && same->seconds <= kTie * quickest.seconds) return same->algorithm;
  return quickest.algorithm;
}

std::vector<PlanStep> plan_type(const Cluster& cluster, Grid grid, const Profile* profile, DType dtype) {
  std::vector<PlanStep> steps;
  std::string chosen;
  for (uint64_t bytes = kSmallest; bytes <= kLargest; bytes *= 2) {
    const std::string next = choose(choices(cluster, grid, profile, dtype, bytes), chosen);
    const auto half_way = static_cast<uint64_t>(static_cast<double>(bytes) / std::numbers::sqrt2);
    if (!chosen.empty() && next != chosen) steps.push_back({half_way, chosen});
    chosen = next;
  }
  steps.push_back({kAnySize, chosen});
  return steps;
}

}  // namespace

std::vector<std::string> Plan::algorithms() const {
  std::vector<std::string> names;
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) {
    const bool used = std::ranges::any_of(steps, [&](const auto& type_and_steps) {
      return std::ranges::find(type_and_steps.second, algorithm.name, &PlanStep::algorithm) !=
             type_and_steps.second.end();
    });
    if (used) names.push_back(algorithm.name);
  }
  return names;
}

Plan make_plan(const Cluster& cluster, Grid grid, const Profile* profile) {
  Plan plan = {.grid = grid, .measured = profile != nullptr && !profile->rows.empty()};
  for (const DType dtype : kReduced) plan.steps[dtype] = plan_type(cluster, grid, profile, dtype);
  return plan;
}

}  // namespace paceline
