#include "paceline/schedule/momentum.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/core/error.h"

namespace paceline {
namespace {

TEST(NoiseScaleMomentum, MikamisValues) {
  EXPECT_NEAR(noise_scale_momentum(0.9, 32'768, 55'296), 0.9407, 5e-5);
  EXPECT_NEAR(noise_scale_momentum(0.9, 32'768, 65'536), 0.95, 1e-15);
}

TEST(NoiseScaleMomentum, IsTheGivenOneAtItsOwnBatch) {
  for (const double momentum : {0.0, 0.5, 0.9, 0.99, 0.9405})
    EXPECT_EQ(noise_scale_momentum(momentum, 256, 256), momentum);
}

TEST(NoiseScaleMomentum, KeepsBatchTimesOneMinusMomentum) {
  for (const int64_t batch : {64, 100, 256, 4096, 1'000'000})
    EXPECT_NEAR(static_cast<double>(batch) * (1 - noise_scale_momentum(0.9, 128, batch)), 12.8, 1e-9);
}

TEST(NoiseScaleMomentum, StaysFromZeroToBelowOne) {
  EXPECT_EQ(noise_scale_momentum(0.9, 1000, 99), 0);
  EXPECT_EQ(noise_scale_momentum(0.9, std::numeric_limits<int64_t>::max(), 1), 0);
  EXPECT_LT(noise_scale_momentum(0.9, 1, std::numeric_limits<int64_t>::max()), 1);
}

TEST(NoiseScaleMomentum, ChecksItsArguments) {
  EXPECT_THROW(noise_scale_momentum(1, 1, 1), InternalError);
  EXPECT_THROW(noise_scale_momentum(-0.1, 1, 1), InternalError);
  EXPECT_THROW(noise_scale_momentum(0.9, 0, 1), InternalError);
  EXPECT_THROW(noise_scale_momentum(0.9, 1, 0), InternalError);
}

}  // namespace
}  // namespace paceline
