#include "paceline/collectives/codec_on_cluster.h"

#include <gtest/gtest.h>

#include "paceline/collectives/platforms.h"

namespace paceline {
namespace {

constexpr double kPackingSecondsPerByte = 5e-10;  // 2 GB/s

TEST(CodecOnCluster, PaysBetweenHostsButNotThroughSharedMemory) {
  const auto codec = builtin_codecs().at("int8")({});
  EXPECT_FALSE(judge_codec_on(platform("shm", 4, 4), *codec, kPackingSecondsPerByte, 80e6).pays);
  Cluster slow = platform("gloo", 4, 1);
  slow.network.beta_s_per_byte = 8e-9;  // 1 Gb/s
  EXPECT_TRUE(judge_codec_on(slow, *codec, kPackingSecondsPerByte, 80e6).pays);
}

TEST(CodecOnCluster, RanksOfAHostShareItsLink) {
  const auto codec = builtin_codecs().at("int8")({});
  const double alone = judge_codec_on(platform("gloo", 4, 1), *codec, kPackingSecondsPerByte, 80e6).plain_s;
  const double shared = judge_codec_on(platform("gloo", 8, 2), *codec, kPackingSecondsPerByte, 80e6).plain_s;
  EXPECT_NEAR(shared / alone, 2 * (7.0 / 8) / (3.0 / 4), 1e-9);
}

}  // namespace
}  // namespace paceline
