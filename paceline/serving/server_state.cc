#include "paceline/serving/server_state.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "paceline/core/check.h"

namespace paceline {
namespace {

void add_number(ServerFigures& figures, const nlohmann::json& from, const char* name) {
  if (const auto found = from.find(name); found != from.end() && found->is_number())
    figures.emplace_back(name, found->get<double>());
}

}  // namespace

ServerState::ServerState(const std::map<std::string, std::vector<float>>& states) {
  for (const auto& [name, values] : states)
    if (name != "weights") state_["server." + name] = torch::tensor(values);
}

void ServerState::step(const StepCoefficients&) { CHECK_TRUE(false, "a server's state takes no steps elsewhere"); }

ServerFigures figures_of(const std::string& metrics) {
  ServerFigures figures;
  const nlohmann::json json = nlohmann::json::parse(metrics, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return figures;
  if (const auto total = json.find("total"); total != json.end() && total->is_object())
    for (const char* name : {"accumulated", "applied", "merged", "dropped", "exchanged"})
      add_number(figures, *total, name);
  for (const char* name : {"gap", "largest_gap", "k", "last_step_gradients", "live"}) add_number(figures, json, name);
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

int connected_workers(const std::string& metrics) {
  const nlohmann::json json = nlohmann::json::parse(metrics, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return 0;
  const auto connected = json.find("connected_workers");
  return connected != json.end() && connected->is_number_integer() ? connected->get<int>() : 0;
}

bool has_pushed(const std::string& metrics, int worker) {
  const nlohmann::json json = nlohmann::json::parse(metrics, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("workers") || !json["workers"].is_object()) return false;
  const auto counts = json["workers"].find(std::to_string(worker));
  if (counts == json["workers"].end() || !counts->is_object()) return false;
  return std::ranges::any_of(*counts, [](const nlohmann::json& count) { return count.is_number() && count > 0; });
}

std::vector<std::pair<std::string, ServerFigures>> figures_of_shards(const std::string& metrics) {
  std::vector<std::pair<std::string, ServerFigures>> of_shards;
  const nlohmann::json json = nlohmann::json::parse(metrics, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("shards") || !json["shards"].is_array()) return of_shards;
  for (const nlohmann::json& shard : json["shards"]) {
    ServerFigures figures;
    if (shard.is_object())
      for (const char* name : {"executed", "bytes_in", "bytes_out", "busy_s"}) add_number(figures, shard, name);
    of_shards.emplace_back(std::to_string(of_shards.size()), std::move(figures));
  }
  return of_shards;
}

}  // namespace paceline
