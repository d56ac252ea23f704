#include "paceline/codecs/error_feedback.h"

#include <gmock/gmock.h>

#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/core/check.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

std::vector<float> numbers(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = RandomKey(seed).normal_pair(i)[0];
  return values;
}

TEST(MomentumCorrection, OneStepIsTheFormula) {
  std::vector<float> g = {1, 2}, u = {10, 20};
  replace_by_momentum(g, u, 0.5f);
  EXPECT_THAT(u, ElementsAre(6, 12));
  EXPECT_THAT(g, ElementsAre(6, 12));
  stop_where_sent(u, std::vector<float>{0, 212});
  EXPECT_THAT(u, ElementsAre(0, 12));
}

TEST(MomentumCorrection, EqualsTheFormulaAtEverySize) {
  for (const size_t count : {0, 1, 15, 33, 1000}) {
    std::vector<float> g = numbers(count, 1), u = numbers(count, 2), lost = numbers(count, 4);
    for (size_t i = 0; i < count; i += 3) lost[i] = i % 2 == 0 ? 0.0f : -0.0f;
    std::vector<float> expected_u(count), stopped(count);
    for (size_t i = 0; i < count; ++i) {
      expected_u[i] = 0.9f * u[i] + g[i];
      stopped[i] = i % 3 == 0 ? 0 : expected_u[i];
    }
    replace_by_momentum(g, u, 0.9f);
    EXPECT_EQ(u, expected_u);
    EXPECT_EQ(g, expected_u);
    stop_where_sent(u, lost);
    EXPECT_EQ(u, stopped);
  }
}

// Of a constant gradient, momentum makes 1/(1-m) of each step's in the long run; with correction, as much is sent.
TEST(MomentumCorrection, SparseUpdatesCarryTheWholeGradient) {
  constexpr size_t kCount = 1000;
  constexpr int kSteps = 400;
  const auto topk = builtin_codecs().at("topk")({.density = 0.05, .density_warmup = false});
  std::vector<float> g(kCount), u(kCount), v(kCount), sent(kCount);
  for (size_t i = 0; i < kCount; ++i) g[i] = 1 + static_cast<float>(RandomKey(7).uniform(i));
  std::vector<std::byte> wire(topk->most_bytes(kCount));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> step_g = g;
    replace_by_momentum(step_g, u, 0.5f);
    for (size_t i = 0; i < kCount; ++i) v[i] += step_g[i];
    const size_t bytes = topk->encode(v, wire, v);
    topk->decode_add(std::span(wire).first(bytes), sent);
    stop_where_sent(u, v);
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_GT(sent[i], 0.8f * kSteps * g[i]) << i;  // everyone's turn comes
    ASSERT_LE(sent[i] + v[i], 2.001f * kSteps * g[i]) << i;
  }
}

TEST(MomentumCorrection, ArraysOfDifferentSizeAreAMistake) {
  std::vector<float> two(2), three(3);
  EXPECT_THROW(replace_by_momentum(two, three, 0), InternalError);
  EXPECT_THROW(stop_where_sent(two, three), InternalError);
}

}  // namespace
}  // namespace paceline
