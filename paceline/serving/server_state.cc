#include "paceline/serving/server_state.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "paceline/core/check.h"

namespace paceline {

ServerState::ServerState(const std::map<std::string, std::vector<float>>& states) {
  for (const auto& [name, values] : states)
    if (name != "weights") state_["server." + name] = torch::tensor(values);
}

void ServerState::step(const StepCoefficients&) { CHECK_TRUE(false, "a server's state takes no steps elsewhere"); }

std::vector<std::pair<std::string, double>> figures_of(const std::string& metrics) {
  std::vector<std::pair<std::string, double>> figures;
  const nlohmann::json json = nlohmann::json::parse(metrics, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return figures;
  const auto add = [&](const nlohmann::json& from, const char* name) {
    if (const auto found = from.find(name); found != from.end() && found->is_number())
      figures.emplace_back(name, found->get<double>());
  };
  if (const auto total = json.find("total"); total != json.end() && total->is_object())
    for (const char* name : {"accumulated", "applied", "merged", "dropped", "exchanged"}) add(*total, name);
  for (const char* name : {"gap", "largest_gap", "k", "last_step_gradients", "live"}) add(json, name);
  if (const auto histogram = json.find("staleness"); histogram != json.end() && histogram->is_object()) {
    double gradients = 0, steps = 0;
    for (const auto& [staleness, count] : histogram->items()) {
      if (!count.is_number()) continue;
      gradients += count.get<double>();
      steps += count.get<double>() * std::strtod(staleness.c_str(), nullptr);
    }
    if (gradients > 0) figures.emplace_back("mean_staleness", steps / gradients);
  }
  return figures;
}

}  // namespace paceline
