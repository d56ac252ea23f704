// A plan as JSON and back, and in words. Without the registry of algorithms: names are taken as they are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "paceline/collectives/plan.h"
#include "paceline/core/check.h"
#include "paceline/core/json_number.h"

namespace paceline {
namespace {

constexpr DType kPlanned[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64};  // make_plan()

std::string size_text(uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size < 1 << 10) return fmt::format("{} B", bytes);
  if (size < 1 << 20) return fmt::format("{:.3g} KiB", size / (1 << 10));
  return fmt::format("{:.3g} MiB", size / (1 << 20));
}

std::string describe(const std::vector<PlanStep>& steps) {
  if (steps.size() == 1) return steps[0].algorithm;
  std::string text;
  for (const PlanStep& step : steps)
    text += step.up_to_bytes == kAnySize ? fmt::format("then {}", step.algorithm)
                                         : fmt::format("{} up to {}, ", step.algorithm, size_text(step.up_to_bytes));
  return text;
}

}  // namespace

const std::string& Plan::algorithm(DType dtype, uint64_t bytes) const {
  const auto found = steps.find(dtype);
  CHECK_TRUE(found != steps.end(), "no plan for {}", name_of(dtype));
  return std::ranges::lower_bound(found->second, bytes, {}, &PlanStep::up_to_bytes)->algorithm;
}

std::string print_plan(const Plan& plan) {
  nlohmann::ordered_json json = {{"grid", {plan.grid.x, plan.grid.y}}, {"measured", plan.measured}};
  for (const auto& [dtype, steps] : plan.steps) {
    nlohmann::ordered_json& list = json["steps"][std::string(name_of(dtype))];
    for (const PlanStep& step : steps)
      list.push_back({{"up_to_bytes", step.up_to_bytes}, {"algorithm", step.algorithm}});
  }
  return json.dump();
}

Plan parse_plan(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw DataError(fmt::format("not a plan of all-reduces: {}", what));
  };
  const auto side = [&](size_t index) {
    return static_cast<int>(natural_of(json.at("grid").at(index), std::numeric_limits<int>::max()));
  };
  Plan plan = {.grid = {side(0), side(1)}, .measured = json.at("measured")};
  for (const DType dtype : kPlanned) {
    std::vector<PlanStep>& steps = plan.steps[dtype];
    for (const nlohmann::json& step : json.at("steps").at(std::string(name_of(dtype)))) {
      const uint64_t before = steps.empty() ? 0 : steps.back().up_to_bytes;
      steps.push_back({natural_of(step.at("up_to_bytes")), step.at("algorithm")});
      require(steps.back().up_to_bytes > before, "its sizes do not rise");
    }
    require(!steps.empty() && steps.back().up_to_bytes == kAnySize, "it ends before the largest size");
  }
  return plan;
}

std::string describe(const Plan& plan) {
  std::string text;
  std::vector<DType> told;
  for (const auto& [dtype, steps] : plan.steps) {
    if (std::ranges::find(told, dtype) != told.end()) continue;
    std::vector<std::string_view> names;
    for (const auto& [other, other_steps] : plan.steps) {
      if (other_steps != steps) continue;
      names.push_back(name_of(other));
      told.push_back(other);
    }
    text += fmt::format("{}: {}\n", fmt::join(names, ", "), describe(steps));
  }
  return text;
}

}  // namespace paceline
