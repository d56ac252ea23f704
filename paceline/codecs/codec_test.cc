#include "paceline/codecs/codec.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/half.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Values;
using ::testing::ValuesIn;

constexpr CodecOptions kOptions = {.density = 0.05, .density_warmup = false, .threshold = 0.02, .block = 100};

std::unique_ptr<Codec> make(const std::string& name) { return builtin_codecs().at(name)(kOptions); }

// As gradients are: around zero, most of them small.
std::vector<float> gradients(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 0.01f * RandomKey(seed).normal_pair(i)[0];
  return values;
}

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

std::vector<std::byte> encoded(const Codec& codec, std::span<const float> values, std::span<float> lost) {
  std::vector<std::byte> wire(codec.most_bytes(values.size()));
  wire.resize(codec.encode(values, wire, lost));
  return wire;
}

std::vector<float> decoded(const Codec& codec, const std::vector<std::byte>& wire, size_t count) {
  std::vector<float> values(count, 9.0f);
  codec.decode(wire, values);
  return values;
}

// The most that a codec may be off, for one element among others.
double bound(const std::string& name, const std::vector<float>& values, size_t i) {
  const double magnitude = std::fabs(values[i]);
  if (name == "none") return 0;
  if (name == "fp16") return std::max(magnitude * 0x1p-11, 0x1p-35);
  if (name == "bf16") return magnitude * 0x1p-8;
  if (name == "threshold") return magnitude >= kOptions.threshold ? 0 : magnitude;
  if (name == "topk") return magnitude;
  const size_t begin = i / kOptions.block * kOptions.block;
  double most = 0;
  for (size_t j = begin; j < std::min(values.size(), begin + kOptions.block); ++j)
    most = std::max(most, static_cast<double>(std::fabs(values[j])));
  return name == "int8" ? 0.50001 * most / 127 : most;
}

class CodecTest : public ::testing::TestWithParam<std::tuple<std::string, size_t>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  size_t count() const { return std::get<1>(GetParam()); }
  std::unique_ptr<Codec> codec_ = make(std::get<0>(GetParam()));
};

TEST_P(CodecTest, GivesBackWhatItGotWithinItsBound) {
  const std::vector<float> values = gradients(count(), 1);
  const std::vector<float> result = decoded(*codec_, encoded(*codec_, values, {}), count());
  for (size_t i = 0; i < count(); ++i) ASSERT_LE(std::fabs(result[i] - values[i]), bound(name(), values, i)) << i;
}

TEST_P(CodecTest, WhatWasLostIsTheDifference) {
  const std::vector<float> values = gradients(count(), 2);
  std::vector<float> lost(count(), 9);
  const std::vector<float> result = decoded(*codec_, encoded(*codec_, values, lost), count());
  for (size_t i = 0; i < count(); ++i) {
    ASSERT_EQ(lost[i], values[i] - result[i]) << i;
    if (name() == "onebit")
      ASSERT_NEAR(result[i] + lost[i], values[i], 1e-8) << i;  // means are no neighbours of their elements
    else
      ASSERT_EQ(result[i] + lost[i], values[i]) << i;
  }
}

TEST_P(CodecTest, TheBytesDependOnTheValuesOnly) {
  const std::vector<float> values = gradients(count(), 3);
  std::vector<float> lost(count()), both = values;
  const std::vector<std::byte> wire = encoded(*codec_, values, {});
  EXPECT_EQ(encoded(*codec_, values, lost), wire);
  EXPECT_EQ(encoded(*make(name()), both, both), wire);
  EXPECT_EQ(bits_of(both), bits_of(lost));
  if (codec_->fixed_length()) {
    EXPECT_EQ(wire.size(), codec_->most_bytes(count()));
  }
}

TEST_P(CodecTest, AddsWhatItDecodes) {
  const std::vector<std::byte> wire = encoded(*codec_, gradients(count(), 4), {});
  const std::vector<float> result = decoded(*codec_, wire, count());
  std::vector<float> sum = gradients(count(), 5), expected = sum;
  for (size_t i = 0; i < count(); ++i) expected[i] += result[i];
  codec_->decode_add(wire, sum);
  EXPECT_EQ(bits_of(sum), bits_of(expected));
}

TEST_P(CodecTest, ErrorFeedbackLosesNothingForEver) {
  constexpr int kSteps = 50;
  std::vector<float> residual(count());
  std::vector<double> given(count()), arrived(count());
  double largest = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> values = gradients(count(), 100 + static_cast<uint64_t>(step));
    for (size_t i = 0; i < count(); ++i) {
      values[i] += 0.002f;  // a direction, beside the noise
      given[i] += values[i];
      values[i] += residual[i];
    }
    const std::vector<float> result = decoded(*codec_, encoded(*codec_, values, residual), count());
    for (size_t i = 0; i < count(); ++i) arrived[i] += result[i];
  }
  double mean_error = 0;
  for (size_t i = 0; i < count(); ++i) {
    ASSERT_NEAR(arrived[i] + residual[i], given[i], 1e-6) << i;
    largest = std::max(largest, std::fabs(arrived[i] - given[i]));
    mean_error += (arrived[i] - given[i]) / static_cast<double>(count());
  }
  // What is under way does not grow with the steps: a few gradients' worth, of fifty.
  EXPECT_LE(largest, name() == "topk" ? 0.15 : 0.06);
  EXPECT_LE(std::fabs(mean_error), 0.03);
}

TEST_P(CodecTest, WhatIsNotFiniteArrivesAsSuchAndIsNotKept) {
  if (count() == 0) return;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const size_t every : {size_t{1}, count()}) {
      std::vector<float> values = gradients(count(), 6), lost(count());
      for (size_t i = count() / 2; i < count(); i += every) values[i] = bad;
      const std::vector<float> result = decoded(*codec_, encoded(*codec_, values, lost), count());
      EXPECT_FALSE(std::ranges::all_of(result, [](float value) { return std::isfinite(value); }));
      EXPECT_TRUE(std::ranges::all_of(lost, [](float value) { return std::isfinite(value); }));
    }
  }
}

TEST_P(CodecTest, TheSumOfSeveralRanksFitsAndIsGivenBack) {
  constexpr int kRanks = 3;
  std::vector<float> sum(count()), lost(count(), 9);
  for (int rank = 0; rank < kRanks; ++rank)
    codec_->decode_add(encoded(*codec_, gradients(count(), 10 + static_cast<uint64_t>(rank)), {}), sum);
  std::vector<std::byte> wire(codec_->most_sum_bytes(count(), kRanks));
  const size_t bytes = codec_->encode_sum(sum, wire, lost, kRanks);
  ASSERT_LE(bytes, wire.size());
  if (codec_->fixed_sum_length()) {
    EXPECT_EQ(bytes, wire.size());
  }
  wire.resize(bytes);
  const std::vector<float> result = decoded(*codec_, wire, count());
  if (name() == "topk" || name() == "threshold" || name() == "none") {
    EXPECT_EQ(result, sum);
    EXPECT_THAT(lost, Each(0.0f));
  }
  for (size_t i = 0; i < count(); ++i) ASSERT_NEAR(result[i] + lost[i], sum[i], 1e-8) << i;
}

TEST_P(CodecTest, TooLittleRoomIsAMistake) {
  const std::vector<float> values = gradients(count(), 7);
  std::vector<std::byte> wire(codec_->most_bytes(count()));
  std::vector<float> short_lost(count() + 1);
  EXPECT_THROW(codec_->encode(values, wire, short_lost), InternalError);
  if (!wire.empty()) {
    EXPECT_THROW(codec_->encode(values, std::span(wire).first(wire.size() - 1), {}), InternalError);
    std::vector<float> result(count());
    const size_t bytes = codec_->encode(values, wire, {});
    EXPECT_THROW(codec_->decode(std::span(wire).first(bytes - 1), result), InternalError);
    EXPECT_THROW(codec_->decode_add(std::span(wire).first(bytes - 1), result), InternalError);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryCodec, CodecTest,
                         ::testing::Combine(ValuesIn(builtin_codecs().names()), Values(0, 1, 7, 100, 1000, 10'007)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), std::get<1>(test.param));
                         });

TEST(Codecs, KnowWhetherAnyAllReduceCanSumThem) {
  EXPECT_EQ(make("none")->wire_dtype(), DType::f32);
  EXPECT_EQ(make("fp16")->wire_dtype(), DType::f16);
  EXPECT_EQ(make("bf16")->wire_dtype(), DType::bf16);
  for (const char* name : {"int8", "onebit", "topk", "threshold"}) {
    EXPECT_EQ(make(name)->wire_dtype(), std::nullopt) << name;
    EXPECT_TRUE(make(name)->lossy()) << name;
  }
}

TEST(Codecs, SayHowManyTimesFewerBytesTheyTake) {
  for (const std::string& name : builtin_codecs().names()) {
    const auto codec = builtin_codecs().at(name)({});
    codec->set_epoch(100);
    if (!codec->fixed_length()) continue;
    const double ratio = 4e6 / static_cast<double>(codec->most_bytes(1'000'000));
    EXPECT_NEAR(codec->ratio(), ratio, 0.001 * ratio) << name;
  }
}

TEST(Codecs, OptionsThatMakeNoSenseAreRefused) {
  const auto refuses = [](const std::string& name, const CodecOptions& options) {
    EXPECT_THROW(builtin_codecs().at(name)(options), UsageError) << name;
  };
  refuses("int8", {.block = 0});
  refuses("onebit", {.block = 0});
  refuses("topk", {.density = 0});
  refuses("topk", {.density = 1.01});
  refuses("topk", {.density = std::nan("")});
  refuses("threshold", {.threshold = -1});
  refuses("threshold", {.threshold = std::nan("")});
}

TEST(Codecs, AreNamed) {
  EXPECT_THAT(builtin_codecs().names(), ElementsAre("bf16", "fp16", "int8", "none", "onebit", "threshold", "topk"));
  for (const std::string& name : builtin_codecs().names()) EXPECT_EQ(make(name)->name(), name);
}

TEST(Fp16, TravelsTimes1024AndLargeNumbersBecomeInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1, -0.5f, 0x1p-30f, 63.96875f, 64, -1e30f};
  const std::vector<std::byte> wire = encoded(*make("fp16"), values, {});
  EXPECT_EQ(std::to_integer<int>(wire[1]), 0x64);  // 1024 is 0x6400
  EXPECT_THAT(decoded(*make("fp16"), wire, values.size()),
              ElementsAre(1, -0.5f, 0x1p-30f, 63.96875f, infinity, -infinity));
}

TEST(Fp16, TheMoreRanksTheLargerTheirAddendsTravel) {
  const auto scale = [](int ranks, bool scaled) {
    return builtin_codecs().at("fp16")({.scaled = scaled, .ranks = ranks})->half_wire()->scale;
  };
  EXPECT_EQ(scale(3, false), 1024);
  EXPECT_EQ(scale(4, false), 2048);
  EXPECT_EQ(scale(2'048, false), 32'768);
  EXPECT_EQ(scale(2'048, true), 32);
}

void add_f16(std::vector<uint16_t>& sum, const std::vector<uint16_t>& addend) {
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] = f16_from_float(float_from_f16(sum[i]) + float_from_f16(addend[i]));
}

// Gradients of 2,048 ranks, each divided by all of them: their sum on the wire, rounded at every hop, beside the exact
// one. Along a ring each addend meets the sum of all before it; in a tree sums of the same number of addends meet.
// A rank's elements are of magnitudes from 1e-8 to 1, and the mean has a tenth of that.
TEST(Fp16, TwoThousandAddendsLoseNothingThatMatters) {
  constexpr int kRanks = 2'048;
  constexpr size_t kOfOneMagnitude = 64;
  const std::vector<double> magnitudes = {1e-8, 1e-6, 1e-4, 1e-2, 1};
  const size_t count = kOfOneMagnitude * magnitudes.size();
  const auto codec = builtin_codecs().at("fp16")({.ranks = kRanks});

  std::vector<double> exact(count);
  std::vector<std::vector<uint16_t>> addends(kRanks, std::vector<uint16_t>(count));
  size_t vanished = 0;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const RandomKey random = RandomKey(7).with(rank);
    std::vector<float> share(count);
    for (size_t i = 0; i < count; ++i) {
      const double mean = i % 2 == 0 ? 0.1 : -0.1, own = 2 * random.uniform(i) - 1;
      share[i] = static_cast<float>(magnitudes[i / kOfOneMagnitude] * (mean + own) / kRanks);
      exact[i] += share[i];
    }
    const std::vector<std::byte> wire = encoded(*codec, share, {});
    std::memcpy(addends[rank].data(), wire.data(), wire.size());
    for (size_t i = 0; i < count; ++i) vanished += float_from_f16(addends[rank][i]) == 0 && std::fabs(share[i]) > 1e-12f;
  }
  EXPECT_EQ(vanished, 0u);

  const auto expect_near = [&](const std::vector<uint16_t>& sum, const char* order, double most) {
    std::vector<float> found(count);
    codec->decode(std::as_bytes(std::span(sum)), found);
    for (size_t kind = 0; kind < magnitudes.size(); ++kind) {
      double error2 = 0, norm2 = 0;
      for (size_t i = kind * kOfOneMagnitude; i < (kind + 1) * kOfOneMagnitude; ++i) {
        error2 += (found[i] - exact[i]) * (found[i] - exact[i]);
        norm2 += exact[i] * exact[i];
      }
      const bool smallest = kind == 0;  // its addends have one bit or two
      EXPECT_LT(std::sqrt(error2 / norm2), smallest ? 0.07 : most) << order << ", gradients of " << magnitudes[kind];
    }
  };
  std::vector<uint16_t> ring = addends[0];
  for (size_t rank = 1; rank < kRanks; ++rank) add_f16(ring, addends[rank]);
  expect_near(ring, "ring", 0.02);
  for (size_t apart = 1; apart < kRanks; apart *= 2)
    for (size_t rank = 0; rank < kRanks; rank += 2 * apart) add_f16(addends[rank], addends[rank + apart]);
  expect_near(addends[0], "tree", 0.01);
}

TEST(Fp16, WithALossScaleTravelsAsItIsAndOverflows) {
  const auto codec = builtin_codecs().at("fp16")({.scaled = true});
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1, -0.5f, 64, 65504, 66000, -1e30f};
  const std::vector<std::byte> wire = encoded(*codec, values, {});
  EXPECT_THAT(decoded(*codec, wire, values.size()), ElementsAre(1, -0.5f, 64, 65504, infinity, -infinity));
}

TEST(Threshold, SendsWhatIsAsLargeAndNeverMoreBytesThanThereAre) {
  const auto codec = builtin_codecs().at("threshold")({.threshold = 0.5});
  std::vector<float> values = {0.1f, -0.5f, 0.2f, 0.75f, 0, -0.25f}, lost(6);
  EXPECT_EQ(encoded(*codec, values, lost).size(), 4u + 2 * 8);
  EXPECT_THAT(lost, ElementsAre(0.1f, 0, 0.2f, 0, 0, -0.25f));
  values = {0.1f, -0.5f, 0.2f, 0.75f, 1, -0.25f};  // three of six: as long as all of them
  EXPECT_EQ(encoded(*codec, values, lost).size(), 4u + 6 * 4);
  EXPECT_THAT(lost, Each(0.0f));
}

}  // namespace
}  // namespace paceline
