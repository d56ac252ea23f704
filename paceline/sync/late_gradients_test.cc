#include "paceline/sync/late_gradients.h"

#include <gmock/gmock.h>

#include <array>
#include <map>

#include "paceline/sync/test_orders.h"

namespace paceline {
namespace {

using Vector = std::array<double, 3>;

Vector operator+(const Vector& a, const Vector& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }
Vector operator-(const Vector& a, const Vector& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }
Vector operator*(double f, const Vector& a) { return {f * a[0], f * a[1], f * a[2]}; }

// The gradient that was pushed in this record of an order.
Vector gradient_of(size_t record) {
  const RandomKey key = RandomKey(71).with(record);
  return {key.uniform(0) - 0.5, key.uniform(1) + 1, key.uniform(2) * 10 - 5};
}

// Carries decisions out, by the formulas of policy.h and progressive momentum's step: mc <- gamma(mc + mean).
struct Momentum {
  struct Mean {
    Vector mean = {};
    double samples = 0;
  };
  double gamma = 0;
  std::map<uint64_t, Mean> means = {};
  Vector mc = {};

  void carry_out(const Decision& decision, const Vector& g) {
    const double b = static_cast<double>(decision.samples);
    if (decision.kind == Decision::Kind::accumulate || decision.kind == Decision::Kind::merge_mean) {
      Mean& of = means[decision.version];
      of.samples += b;
      const Vector d = (b / of.samples) * (g - of.mean);
      if (decision.kind == Decision::Kind::merge_mean) mc = mc + decision.factor * d;
      of.mean = of.mean + d;
    }
    if (decision.kind == Decision::Kind::merge) mc = mc + decision.factor * g;
    if (decision.kind == Decision::Kind::step) mc = gamma * (mc + means[decision.version - 1].mean);
  }
};

// The momentum before step `version`, had all gradients used so far been in time: each version's mean, decayed.
Vector in_time(const SyncHistory& past, size_t records, uint64_t version, double gamma) {
  std::map<uint64_t, std::pair<Vector, double>> sums;
  for (size_t at = 0; at < records; ++at)
    for (const Decision& decision : past.records[at].decisions) {
      if (decision.kind != Decision::Kind::accumulate && decision.kind != Decision::Kind::merge_mean) continue;
      auto& [sum, samples] = sums[decision.version];
      sum = sum + static_cast<double>(decision.samples) * gradient_of(at);
      samples += static_cast<double>(decision.samples);
    }
  Vector momentum = {};
  for (const auto& [of, sum] : sums)
    if (of < version) momentum = momentum + std::pow(gamma, static_cast<double>(version - of)) / sum.second * sum.first;
  return momentum;
}

class MergeMean : public testing::TestWithParam<const char*> {};

TEST_P(MergeMean, TheMomentumIsAsIfLateGradientsHadBeenInTime) {
  int merged = 0;
  play_orders({.policy = GetParam(),
               .orders = 2'000,
               .vary =
                   [](Dice& dice, SyncSettings& s) {
                     s.merge = "mean";
                     s.rule = "variance";
                     s.history = dice.from_to(0, 4);
                     s.momentum = dice.uniform();
                   },
               .over =
                   [&](const SyncHistory& past, const SyncSettings& s) {
                     Momentum momentum = {.gamma = s.momentum};
                     uint64_t version = 0;
                     for (size_t at = 0; at < past.records.size(); ++at) {
                       for (const Decision& decision : past.records[at].decisions) {
                         momentum.carry_out(decision, gradient_of(at));
                         if (decision.kind == Decision::Kind::step) version = decision.version;
                         if (decision.kind == Decision::Kind::merge_mean) ++merged;
                       }
                       const Vector expected = in_time(past, at + 1, version, s.momentum);
                       for (size_t i = 0; i < 3; ++i) ASSERT_NEAR(momentum.mc[i], expected[i], 1e-11);
                     }
                   }});
  EXPECT_GT(merged * kFewerOrders, 3'000);
}
INSTANTIATE_TEST_SUITE_P(WhereverItIsUsed, MergeMean, testing::Values("k_sync", "adaptive_k"));

TEST(DecideLate, WeighsByStaleness) {
  const LateGradient late = {
      .worker = 3, .version = 5, .samples = 8, .staleness = 2, .all_samples = 64, .gradients_of_step = 4};
  using enum Decision::Kind;
  EXPECT_EQ(decide_late(late, "additive", 0.5, 0), gradient(merge, 3, 5, 8, 0.03125));
  EXPECT_EQ(decide_late(late, "zhang", 0.5, 0), gradient(merge, 3, 5, 8, 0.0625));
  EXPECT_EQ(decide_late(late, "mean", 0.5, 2), gradient(merge_mean, 3, 5, 8, 0.25));
  EXPECT_EQ(decide_late(late, "mean", 0.5, 1), gradient(drop, 3, 5, 8));
  EXPECT_EQ(decide_late(late, "drop", 0.5, 9), gradient(drop, 3, 5, 8));
  EXPECT_THROW(decide_late(late, "other", 0.5, 9), InternalError);
}

}  // namespace
}  // namespace paceline
