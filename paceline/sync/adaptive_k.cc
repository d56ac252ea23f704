#include "paceline/sync/adaptive_k.h"

#include <nlohmann/json.hpp>

namespace paceline {

AdaptiveKPolicy::AdaptiveKPolicy(const SyncSettings& settings)
    : RoundsPolicy("adaptive_k", settings, settings.merge), rule_(make_k_rule(settings)) {}

void AdaptiveKPolicy::save_more(nlohmann::json& state) const {
  RoundsPolicy::save_more(state);
  state["rule"] = rule_->save();
}

void AdaptiveKPolicy::load_more(const nlohmann::json& state) {
  RoundsPolicy::load_more(state);
  rule_->load(state.at("rule"));
}

}  // namespace paceline
