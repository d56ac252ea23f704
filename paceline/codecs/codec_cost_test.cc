#include "paceline/codecs/codec_cost.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "paceline/core/check.h"

namespace paceline {
namespace {

std::unique_ptr<Codec> codec(const std::string& name) {
  return builtin_codecs().at(name)({.density = 0.01, .density_warmup = false});
}

TEST(JudgeCodec, PaysOnASlowLinkAndNotOnAFastOne) {
  // 4 ranks: 1.5 · 16 MB over 1.5 GB/s.
  const CodecSetting slow = {.codec_s_per_byte = 8e-11, .link_bytes_per_s = 1.5e9, .ranks = 4, .bytes = 16e6};
  const CodecVerdict verdict = judge_codec(*codec("int8"), slow);
  EXPECT_TRUE(verdict.pays);
  EXPECT_NEAR(verdict.plain_s, 16e-3, 1e-9);
  EXPECT_NEAR(verdict.packed_s, 16e-3 / 3.938 + 16e6 * 8e-11 * 13 / 8, 1e-5);
  EXPECT_EQ(verdict.text, "int8 pays on this link: 3.9x fewer bytes save 12 ms of 16, packing costs 2.1 ms");

  CodecSetting fast = slow;
  fast.link_bytes_per_s = 30e9;
  const CodecVerdict other = judge_codec(*codec("int8"), fast);
  EXPECT_FALSE(other.pays);
  EXPECT_EQ(other.text, "int8 does not pay on this link: 3.9x fewer bytes save 0.6 ms of 0.8, packing costs 2.1 ms");
}

TEST(JudgeCodec, SumsOfSparseGradientsAreLessSparse) {
  const CodecSetting setting = {.link_bytes_per_s = 1e9, .ranks = 10, .bytes = 4e8};
  // A hundredth with indices: 1/50. The sum of ten: 10/50.
  EXPECT_NEAR(judge_codec(*codec("topk"), setting).packed_s, 0.9 * (4e8 / 50 + 4e8 / 5) / 1e9, 1e-6);
}

TEST(JudgeCodec, ElementwiseCodecsPackOnce) {
  const CodecSetting setting = {.codec_s_per_byte = 1e-10, .link_bytes_per_s = 1e9, .ranks = 2, .bytes = 4e8};
  EXPECT_NEAR(judge_codec(*codec("fp16"), setting).packed_s, 0.2 + 0.04, 1e-9);
}

TEST(JudgeCodec, SaysWhereNothingCanBeSaid) {
  EXPECT_EQ(judge_codec(*codec("int8"), {.link_bytes_per_s = 1e9, .ranks = 1, .bytes = 4e6}).text,
            "int8 does not pay: one rank sends nothing");
  const CodecVerdict threshold = judge_codec(*codec("threshold"), {.link_bytes_per_s = 1e9, .ranks = 2, .bytes = 4e6});
  EXPECT_FALSE(threshold.pays);
  EXPECT_EQ(threshold.text, "threshold promises nothing: how much it sends depends on the gradients");
}

TEST(MeasuredSecondsPerByte, AreAPlausibleTimeForEveryCodec) {
  for (const std::string& name : builtin_codecs().names()) {
    const double seconds = measured_seconds_per_byte(*codec(name), 10'000);
    EXPECT_GT(seconds, 1e-13) << name;
    EXPECT_LT(seconds, 1e-6) << name;
  }
  EXPECT_THROW(measured_seconds_per_byte(*codec("none"), 0), InternalError);
}

}  // namespace
}  // namespace paceline
