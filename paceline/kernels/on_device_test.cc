#include "paceline/kernels/on_device.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

TEST(DeviceTensor, IsAlignedOnlyWhenEverythingThereIs) {
  alignas(16) float numbers[8] = {};
  alignas(16) uint16_t halves[8] = {};
  const DeviceTensor good = {.weights = numbers, .gradient = numbers + 4, .states = {numbers, nullptr}};
  EXPECT_TRUE(is_aligned(good));

  DeviceTensor weights = good, gradient = good, state = good, copy = good;
  weights.weights = numbers + 1;
  gradient.gradient = numbers + 2;
  state.states[1] = numbers + 3;
  copy.half_weights = halves + 2;
  EXPECT_FALSE(is_aligned(weights));
  EXPECT_FALSE(is_aligned(gradient));
  EXPECT_FALSE(is_aligned(state));
  EXPECT_FALSE(is_aligned(copy));
}

TEST(DeviceTensor, NeedsEightBytesForFourHalves) {
  alignas(16) float numbers[8] = {};
  alignas(16) uint16_t halves[16] = {};
  DeviceTensor tensor = {.weights = numbers, .gradient = halves + 4, .gradient_type = DeviceNumber::bf16};
  tensor.half_weights = halves + 8;
  EXPECT_TRUE(is_aligned(tensor));
  tensor.gradient = halves + 2;
  EXPECT_FALSE(is_aligned(tensor));
}

}  // namespace
}  // namespace paceline
