#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/core/check.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

std::unique_ptr<Codec> topk(double density) {
  return builtin_codecs().at("topk")({.density = density, .density_warmup = false});
}

struct Entries {
  std::vector<uint32_t> indices;
  std::vector<float> values;
};

Entries entries_of(const std::vector<std::byte>& wire) {
  uint32_t number;
  std::memcpy(&number, wire.data(), 4);
  Entries entries = {std::vector<uint32_t>(number), std::vector<float>(number)};
  std::memcpy(entries.indices.data(), wire.data() + 4, number * 4);
  std::memcpy(entries.values.data(), wire.data() + 4 + number * 4, number * 4);
  return entries;
}

// The indices of the largest by sorting; of equal ones the first.
std::vector<uint32_t> largest(const std::vector<float>& values, size_t wanted) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return std::fabs(values[a]) > std::fabs(values[b]); });
  order.resize(wanted);
  std::ranges::sort(order);
  return order;
}

void expect_largest(const std::vector<float>& values, double density) {
  const auto codec = topk(density);
  const auto wanted = static_cast<size_t>(std::ceil(density * static_cast<double>(values.size())));
  std::vector<std::byte> wire(codec->most_bytes(values.size()));
  std::vector<float> lost(values.size());
  ASSERT_EQ(codec->encode(values, wire, lost), 4 + 8 * wanted);
  const Entries entries = entries_of(wire);
  EXPECT_EQ(entries.indices, largest(values, wanted));
  for (size_t entry = 0; entry < wanted; ++entry) {
    ASSERT_EQ(entries.values[entry], values[entries.indices[entry]]);
    ASSERT_EQ(lost[entries.indices[entry]], 0);
  }
}

class TopKTest : public ::testing::TestWithParam<std::tuple<size_t, double>> {
 protected:
  size_t count() const { return std::get<0>(GetParam()); }
  double density() const { return std::get<1>(GetParam()); }
};

TEST_P(TopKTest, SendsTheLargestOfOrdinaryGradients) {
  std::vector<float> values(count());
  for (size_t i = 0; i < count(); ++i) values[i] = RandomKey(1).normal_pair(i)[0];
  expect_largest(values, density());
}

TEST_P(TopKTest, SendsTheLargestOfGradientsThatMisleadTheSample) {
  std::vector<std::vector<float>> arrays(8, std::vector<float>(count()));
  for (size_t i = 0; i < count(); ++i) {
    const float number = RandomKey(2).normal_pair(i)[0];
    arrays[0][i] = 1;                                                     // all equal
    arrays[1][i] = i % 2 == 0 ? 1 : -1;                                   // but for the sign
    arrays[2][i] = 0;                                                     // nothing at all
    arrays[3][i] = i == count() / 3 ? 5 : 0;                              // one spike
    arrays[4][i] = i % 1000 == 7 ? number : 0;                            // fewer than are wanted
    arrays[5][i] = static_cast<float>(i);                                 // the largest at the end
    arrays[6][i] = number * (i % 63 == 0 || i % 64 == 0 ? 1e-3f : 1.0f);  // small where the sample may look
    arrays[7][i] = number * (i % 63 == 0 || i % 64 == 0 ? 1e3f : 1.0f);   // or large there
  }
  for (const std::vector<float>& values : arrays) expect_largest(values, density());
}

INSTANTIATE_TEST_SUITE_P(CountsAndDensities, TopKTest,
                         ::testing::Combine(::testing::Values(100, 1023, 2049, 3000, 70'001),
                                            ::testing::Values(0.001, 0.01, 0.25)));

TEST(TopK, SendsAtLeastOneElementOfAny) {
  const auto codec = topk(0.001);
  EXPECT_EQ(codec->most_bytes(0), 4u);
  EXPECT_EQ(codec->most_bytes(1), 8u);  // as it is, without an index
  EXPECT_EQ(codec->most_bytes(2), 12u);
  EXPECT_EQ(codec->most_bytes(1000), 4u + 8);
  EXPECT_EQ(codec->most_bytes(1001), 4u + 16);
  EXPECT_EQ(topk(1)->most_bytes(1000), 4u + 4000);
}

TEST(TopK, TheDensityFallsToItsEndInTheFirstEpochs) {
  const auto codec = builtin_codecs().at("topk")({.density = 0.01, .density_warmup = true});
  const auto sent = [&](double epoch) {
    codec->set_epoch(epoch);
    return (codec->most_bytes(1'000'000) - 4) / 8;
  };
  EXPECT_EQ(codec->ratio(), 2);  // before the first call: the first epoch
  EXPECT_EQ(sent(0), 250'000u);
  EXPECT_EQ(sent(0.99), 250'000u);
  EXPECT_EQ(sent(1), 62'500u);
  EXPECT_EQ(sent(2.5), 15'625u);
  EXPECT_EQ(sent(3), 10'000u);
  EXPECT_EQ(sent(90), 10'000u);
  EXPECT_EQ(codec->ratio(), 50);
}

TEST(TopK, AnIndexBeyondTheEndIsAMistake) {
  const auto codec = topk(0.01);
  std::vector<float> values(100);
  values[99] = 1;
  std::vector<std::byte> wire(codec->most_bytes(values.size()));
  ASSERT_EQ(codec->encode(values, wire, {}), wire.size());
  values.resize(99);
  EXPECT_THROW(codec->decode(wire, values), InternalError);
  EXPECT_THROW(codec->decode_add(wire, values), InternalError);
}

}  // namespace
}  // namespace paceline
