#include "paceline/sync/adaptive_k.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "paceline/sync/test_orders.h"
#include "paceline/sync/test_rounds_model.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum Decision::Kind;

int least_k(const SyncSettings& s, int party) {
  const int wanted = s.k_min > 0 ? s.k_min : std::max(2, static_cast<int>(std::ceil(party / 4.0)));
  return std::min(wanted, party);
}
int most_k(const SyncSettings& s, int party) {
  const int wanted = s.k_max > 0 ? s.k_max : static_cast<int>(std::ceil(party * 5 / 8.0));
  return std::max(least_k(s, party), std::min(wanted, party));
}

void vary_bounds(Dice& dice, SyncSettings& s) {
  if (dice.percent(60)) s.k_min = dice.from_to(1, 3);
  if (dice.percent(60)) s.k_max = dice.from_to(std::max(s.k_min, 1), 6);
  s.merge = std::array{"additive", "mean", "drop", "zhang"}[dice.below(4)];
  s.momentum = dice.uniform();
}

RoundsModel with_merge_of(const SyncSettings& s, RoundsModel model) {
  model.merge = s.merge;
  return model;
}

// ---- variance ----

TEST(AdaptiveKPolicy, TheVarianceRuleStepsWhenTheMeanStandsOutOfTheNoise) {
  AdaptiveKPolicy policy({.workers = 4, .merge = "drop", .rule = "variance", .k_min = 2, .k_max = 3, .theta2 = 1});
  EXPECT_TRUE(policy.wants_noise());
  for (int id = 0; id < 4; ++id) policy.on(join(id));
  const GradientNoise one = {.samples = 8, .samples_squared = 64, .mean_norm2 = 1, .spread = 0};
  const GradientNoise too_noisy = {.samples = 16, .samples_squared = 128, .mean_norm2 = 1, .spread = 16};  // S² = 2
  const GradientNoise clear = {.samples = 16, .samples_squared = 128, .mean_norm2 = 1, .spread = 15};

  EXPECT_THAT(policy.on(push(0, 0)), ElementsAre(gradient(accumulate, 0, 0, 8)));
  EXPECT_THAT(policy.on(noise(0, one)), IsEmpty());
  EXPECT_THAT(policy.on(push(3, 0)), ElementsAre(gradient(accumulate, 3, 0, 8)));
  EXPECT_THAT(policy.on(noise(0, too_noisy)), IsEmpty());
  EXPECT_THAT(policy.on(push(1, 0)), ElementsAre(gradient(accumulate, 1, 0, 8), step_to(1, 24, 0.5), release_of(0, 1),
                                                 release_of(1, 1), release_of(3, 1)));  // k_max
  EXPECT_THAT(policy.on(noise(0, clear)), IsEmpty());                                   // of a version that is over

  EXPECT_THAT(policy.on(push(1, 1)), ElementsAre(gradient(accumulate, 1, 1, 8)));
  EXPECT_THAT(policy.on(noise(1, clear)), IsEmpty());  // k_min
  EXPECT_THAT(policy.on(push(0, 1)), ElementsAre(gradient(accumulate, 0, 1, 8)));
  EXPECT_THAT(policy.on(noise(1, clear)), ElementsAre(step_to(2, 16, 0.5), release_of(0, 2), release_of(1, 2)));
}

TEST(AdaptiveKPolicy, ByTheVarianceRuleAnswersAsTheWholePastSaysInRandomOrders) {
  int by_noise = 0;
  const RoundsModel variance = {
      .enough = [](const SyncHistory&, const SyncSettings& s, int party) { return most_k(s, party); },
      .noise_is_enough =
          [&](const SyncHistory& past, const SyncSettings& s, int party) {
            const SyncEvent& report = past.event();
            const GradientNoise& n = report.noise;
            const int gradients = static_cast<int>(past.accumulated(past.version()).size());
            if (report.version != past.version() || gradients < least_k(s, party)) return false;
            if (n.samples * n.samples == n.samples_squared || !std::isfinite(n.mean_norm2)) return false;
            const double s2 = n.spread / (n.samples - n.samples_squared / n.samples);
            const double k_e = n.samples * n.samples / n.samples_squared;
            const bool enough = s.theta2 * n.mean_norm2 > s2 / k_e;
            by_noise += enough;
            return enough;
          }};
  play_orders({.policy = "adaptive_k",
               .vary =
                   [](Dice& dice, SyncSettings& s) {
                     vary_bounds(dice, s);
                     if (dice.percent(50)) s.k_max = 6;
                     s.rule = "variance";
                     s.theta2 = 0.1 + 2 * dice.uniform();
                   },
               .model = [&](SyncHistory& past, const SyncSettings& s) { with_merge_of(s, variance)(past, s); }});
  EXPECT_GT(by_noise * kFewerOrders, 10'000);
}

// ---- time ----

double moved(const std::vector<double>& values, double weight) {
  double mean = values.front();
  for (size_t at = 1; at < values.size(); ++at) mean += weight * (values[at] - mean);
  return mean;
}

// The k of the newest version, from all that had happened when it began.
int time_k(const SyncHistory& past, const SyncSettings& s, int party_now) {
  const uint64_t newest = past.version();
  uint64_t version = 0;
  std::map<uint64_t, int64_t> start_ns;
  std::map<uint64_t, std::vector<double>> arrivals;  // of each version's gradients, after its start
  std::map<int, std::vector<double>> turns;
  std::map<int, int64_t> released_ns;
  std::map<uint64_t, GradientNoise> reports;  // the last of each version
  std::set<int> live;
  for (const SyncRecord& record : past.records) {
    const SyncEvent& e = record.event;
    if (e.kind == SyncEvent::Kind::join) {
      live.insert(e.worker);
      start_ns.emplace(0, e.time_ns);
    }
    if (e.kind == SyncEvent::Kind::leave) {
      live.erase(e.worker);
      turns.erase(e.worker);
    }
    if (e.kind == SyncEvent::Kind::push) {
      turns[e.worker].push_back(std::max(1.0, static_cast<double>(e.time_ns - released_ns[e.worker])));
      if (version < e.version + 3)
        arrivals[e.version].push_back(std::max(1.0, static_cast<double>(e.time_ns - start_ns[e.version])));
    }
    if (e.kind == SyncEvent::Kind::noise && (reports.empty() || e.version >= reports.rbegin()->first))
      reports[e.version] = e.noise;
    for (const Decision& d : record.decisions) {
      if (d.kind == release) released_ns[d.worker] = e.time_ns;
      if (d.kind == step) start_ns[version = d.version] = e.time_ns;
    }
    if (version == newest) break;
  }

  const int party = static_cast<int>(live.size());
  int chosen = least_k(s, party);
  if (newest >= 8) {
    std::vector<double> variances, signals;
    if (!reports.empty()) reports.erase(std::prev(reports.end()));  // may not be the last of its version
    for (const auto& [of, n] : reports) {
      if (n.samples * n.samples == n.samples_squared || !std::isfinite(n.mean_norm2)) continue;
      const double s2 = n.spread / (n.samples - n.samples_squared / n.samples);
      variances.push_back(s2);
      signals.push_back(n.mean_norm2 - s2 / (n.samples * n.samples / n.samples_squared));
    }
    double kappa = 0;
    if (!variances.empty()) {
      const double s2 = moved(variances, 0.05);
      kappa = s2 / std::max(moved(signals, 0.05), s2 * (1 / 1000.0));
    }
    double r = 0;
    for (const auto& [id, of] : turns) r += 1 / moved(of, 0.2);
    double best = 0;
    for (int k = least_k(s, party); k <= most_k(s, party); ++k) {
      std::vector<double> times;
      for (const auto& [of, after] : arrivals)
        if (of + 3 <= newest && after.size() >= static_cast<size_t>(k)) times.push_back(after[k - 1]);
      if (times.empty()) break;
      const double time = moved(times, 0.1);
      const double n = std::max<double>(k, std::min<double>(party, r * time));
      const double gamma2 = s.momentum * s.momentum;
      const double n_eff = 1 / ((1 - gamma2) / k + gamma2 / n);
      const double worth = n_eff / ((n_eff + kappa) * time);
      if (worth > best) {
        best = worth;
        chosen = k;
      }
    }
  }
  return std::clamp(chosen, least_k(s, party_now), most_k(s, party_now));
}

TEST(AdaptiveKPolicy, ByTheTimeRuleAnswersAsTheWholePastSaysInRandomOrders) {
  int asked = 0, more_than_least = 0;
  const RoundsModel time = {.enough = [&](const SyncHistory& past, const SyncSettings& s, int party) {
    // In the first 8 steps k_min, which changes with the party: there is nothing to be found out.
    if (past.version() < 8) return least_k(s, party);
    const int k = time_k(past, s, party);
    ++asked;
    if (k > least_k(s, party)) ++more_than_least;
    return k;
  }};
  play_orders({.policy = "adaptive_k",
               .least_events = 40,
               .most_events = 100,
               .vary =
                   [](Dice& dice, SyncSettings& s) {
                     vary_bounds(dice, s);
                     s.rule = "time";
                   },
               .model = [&](SyncHistory& past, const SyncSettings& s) { with_merge_of(s, time)(past, s); }});
  EXPECT_GT(asked * kFewerOrders, 50'000);
  EXPECT_GT(more_than_least * kFewerOrders, 5'000);
}

// ---- fixed ----

TEST(AdaptiveKPolicy, ByTheFixedRuleAnswersAsKSync) {
  play_orders({.policy = "adaptive_k",
               .vary =
                   [](Dice& dice, SyncSettings& s) {
                     vary_bounds(dice, s);
                     s.rule = "fixed";
                     s.k = dice.below(5);
                   },
               .model =
                   [](SyncHistory& past, const SyncSettings& s) {
                     with_merge_of(s, {.enough = [](const SyncHistory&, const SyncSettings& t, int party) {
                                     return t.k == 0 ? (party + 1) / 2 : std::min(t.k, party);
                                   }})(past, s);
                   }});
  EXPECT_FALSE(AdaptiveKPolicy({.rule = "fixed"}).wants_noise());
}

}  // namespace
}  // namespace paceline
