#include "paceline/sync/policy.h"

#include <fmt/format.h>

#include <cmath>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {

std::string_view name_of(Decision::Kind kind) {
  switch (kind) {
    case Decision::Kind::accumulate:
      return "accumulate";
    case Decision::Kind::apply:
      return "apply";
    case Decision::Kind::merge:
      return "merge";
    case Decision::Kind::merge_mean:
      return "merge_mean";
    case Decision::Kind::drop:
      return "drop";
    case Decision::Kind::exchange:
      return "exchange";
    case Decision::Kind::step:
      return "step";
    case Decision::Kind::release:
      return "release";
  }
  CHECK_TRUE(false, "there is no decision of kind {}", static_cast<int>(kind));
}

std::string to_text(const Decision& decision) {
  const Decision& d = decision;
  const std::string_view name = name_of(d.kind);
  switch (d.kind) {
    case Decision::Kind::accumulate:
      return fmt::format("{} of worker {}'s gradient of version {}, {} samples", name, d.worker, d.version, d.samples);
    case Decision::Kind::apply:
      return fmt::format("{} of worker {}'s gradient, {} samples, rate {}: version {}", name, d.worker, d.samples,
                         d.rate, d.version);
    case Decision::Kind::merge:
    case Decision::Kind::merge_mean:
      return fmt::format("{} of worker {}'s gradient of version {}, factor {}", name, d.worker, d.version, d.factor);
    case Decision::Kind::drop:
      return fmt::format("{} of worker {}'s gradient of version {}", name, d.worker, d.version);
    case Decision::Kind::exchange:
      return fmt::format("{} with worker {}, factor {}", name, d.worker, d.factor);
    case Decision::Kind::step:
      return fmt::format("{} of {} samples, rate {}: version {}", name, d.samples, d.rate, d.version);
    case Decision::Kind::release:
      return fmt::format("{} of worker {} with version {}", name, d.worker, d.version);
  }
  CHECK_TRUE(false, "there is no decision of kind {}", static_cast<int>(d.kind));
}

void check_settings(const SyncSettings& settings) {
  const auto require = [](bool holds, const char* what, const auto& value, const char* must) {
    if (!holds) throw UsageError(fmt::format("the synchronisation's {} is {}: it must be {}", what, value, must));
  };
  const SyncSettings& s = settings;
  require(s.workers >= 1, "workers", s.workers, "at least 1");
  require(s.momentum >= 0 && s.momentum < 1, "momentum", s.momentum, "in [0, 1)");
  require(s.staleness >= 0, "staleness", s.staleness, "0 or more");
  require(s.penalty == "none" || s.penalty == "linear" || s.penalty == "exponential", "penalty", s.penalty,
          "none, linear or exponential");
  require(s.penalty_decay >= 0 && std::isfinite(s.penalty_decay), "penalty_decay", s.penalty_decay, "0 or more");
  require(s.drop_share >= 0 && s.drop_share < 1, "drop_share", s.drop_share, "in [0, 1)");
  require(s.k >= 0, "k", s.k, "1 or more (0: half of the workers)");
  require(s.merge == "additive" || s.merge == "mean" || s.merge == "drop" || s.merge == "zhang", "merge", s.merge,
          "additive, mean, drop or zhang");
  require(s.history >= 0, "history", s.history, "0 or more");
  require(s.elasticity > 0 && s.elasticity <= 1, "elasticity", s.elasticity, "in (0, 1]");
  require(s.rule == "time" || s.rule == "variance" || s.rule == "fixed", "rule", s.rule, "time, variance or fixed");
  require(s.k_min >= 0, "k_min", s.k_min, "1 or more (0: a quarter of the workers)");
  require(s.k_max == 0 || s.k_max >= s.k_min, "k_max", s.k_max, "k_min or more (0: five eighths of the workers)");
  require(s.theta2 > 0 && std::isfinite(s.theta2), "theta2", s.theta2, "positive");
}

}  // namespace paceline
