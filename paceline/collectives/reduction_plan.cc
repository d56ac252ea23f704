#include "paceline/collectives/reduction_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "paceline/core/error.h"

namespace paceline {

std::string print_reduction_plan(const ReductionPlan& plan) {
  return nlohmann::ordered_json{{"made_for", plan.made_for},
                                {"algorithms", nlohmann::ordered_json::parse(print_plan(plan.algorithms))},
                                {"buckets", nlohmann::ordered_json::parse(print_bucket_plan(plan.buckets))}}
             .dump(2) +
         "\n";
}

ReductionPlan parse_reduction_plan(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    return {.made_for = json.at("made_for"),
            .algorithms = parse_plan(json.at("algorithms").dump()),
            .buckets = parse_bucket_plan(json.at("buckets").dump())};
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("not a plan of reductions: {}", error.what()));
  }
}

}  // namespace paceline
