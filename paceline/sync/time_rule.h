// The time rule: weighs waiting against noise. Each version has a k, chosen when it begins:
//
//   k = argmax n_eff / ((n_eff + kappa)·T_k) in [k_min, k_max], k_min for the first 8 steps
//   n_eff = 1/((1-gamma²)/k + gamma²/n), n = max(k, min(M, r·T_k)): gradients that a step's direction is made of
//   kappa = S²/|expected gradient|²: how many gradients it takes for as much signal as noise
//   T_k: time from the start of a version to the k-th gradient that is computed with it
//   r: gradients that arrive per time
//
// S², T_k and r are running means. T_k is read three versions later, when the late ones have arrived, too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/sync/k_rule.h"

namespace paceline {

class TimeRule : public KRule {
 public:
  explicit TimeRule(const SyncSettings& settings) : settings_(settings) {}

  int k(int party) const override;
  bool wants_noise() const override { return true; }
  void push(const SyncEvent& push, int64_t released_ns) override;
  void leave(const SyncEvent& leave) override;
  void version(uint64_t version, int64_t time_ns, int party) override;
  bool noise(const SyncEvent& noise, const RoundSoFar& round) override;
  nlohmann::json save() const override;
  void load(const nlohmann::json& state) override;

 private:
  struct Arrivals {  // of the gradients of one version
    int64_t start_ns = 0;
    std::vector<int64_t> after_ns;  // since the start, in their order
  };

  void learn_noise();  // of the version that is over
  double kappa() const;
  int choose(int party) const;

  SyncSettings settings_;
  int chosen_ = 0;                         // 0: k_min
  std::map<uint64_t, Arrivals> arrivals_;  // of the newest versions
  std::vector<double> time_to_ns_;         // T_k at k-1
  std::map<int, double> turn_ns_;          // tau_i: from a worker's release to its push
  uint64_t noise_version_ = 0;             // that latest_noise_ is of
  GradientNoise latest_noise_;             // no samples: none
  std::optional<double> variance_;         // S²
  std::optional<double> signal_;           // |m|² - S²/k_e
};

}  // namespace paceline
