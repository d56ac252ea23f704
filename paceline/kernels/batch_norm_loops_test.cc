// The loops of a CPU beside the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "paceline/core/half.h"
#include "paceline/core/random.h"
#include "paceline/kernels/batch_norm.h"

namespace paceline {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void serially(int64_t chunks, const std::function<void(int64_t)>& visit) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) visit(chunk);
}

void backwards(int64_t chunks, const std::function<void(int64_t)>& visit) {
  for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) visit(chunk);
}

// Forward and backward of random numbers, rounded to bf16 first where that is their type.
class Case {
 public:
  Case(int64_t rows, int64_t channels, bool relu, bool residual, DeviceNumber number = DeviceNumber::f32)
      : shape_{rows, channels, number}, relu_(relu), residual_(residual) {
    const auto fill = [&](std::vector<float>& values, int64_t count, float spread, float center) {
      values = numbers(static_cast<size_t>(count), spread, center);
      if (number == DeviceNumber::bf16)
        for (float& value : values) value = float_from_bf16(bf16_from_float(value));
    };
    fill(input, rows * channels, 2, 3);
    fill(added, rows * channels, 1, 0);
    fill(gradient, rows * channels, 1, 0.5f);
    gamma = numbers(static_cast<size_t>(channels), 1, 0.2f);
    beta = numbers(static_cast<size_t>(channels), 1, 0);
  }

  struct Result {
    std::vector<float> output, running_mean, running_variance, statistics, input_gradient, masked, gamma_gradient,
        beta_gradient;
  };

  Result reference() {
    return run<float>([](const auto& pass) { batch_norm_forward_reference(pass); },
                      [](const auto& pass) { batch_norm_backward_reference(pass); }, DeviceNumber::f32);
  }
  Result own(const ForEachChunk& for_each = serially) {
    const auto forward = [&](const auto& pass) { batch_norm_forward(pass, for_each); };
    const auto backward = [&](const auto& pass) { batch_norm_backward(pass, for_each); };
    return shape_.number == DeviceNumber::bf16 ? run<uint16_t>(forward, backward, DeviceNumber::bf16)
                                               : run<float>(forward, backward, DeviceNumber::f32);
  }

  std::vector<float> input, added, gradient, gamma, beta;

 private:
  // The same numbers in every run.
  std::vector<float> numbers(size_t count, float spread, float center) {
    std::vector<float> values(count);
    for (float& value : values) value = center + spread * random_.normal_pair(next_++)[0];
    return values;
  }

  template <class Number>
  static std::vector<Number> as(const std::vector<float>& values) {
    std::vector<Number> same(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      if constexpr (std::is_same_v<Number, float>)
        same[i] = values[i];
      else
        same[i] = bf16_from_float(values[i]);
    return same;
  }
  template <class Number>
  static std::vector<float> widened(const std::vector<Number>& values) {
    std::vector<float> same(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      if constexpr (std::is_same_v<Number, float>)
        same[i] = values[i];
      else
        same[i] = float_from_bf16(values[i]);
    return same;
  }

  template <class Number, class Forward, class Backward>
  Result run(const Forward& forward, const Backward& backward, DeviceNumber number) {
    const auto channels = static_cast<size_t>(shape_.channels);
    const std::vector<Number> x = as<Number>(input), r = as<Number>(added), g = as<Number>(gradient);
    std::vector<Number> out(x.size()), masked(x.size()), input_gradient(x.size());
    Result result = {.running_mean = std::vector<float>(channels, 0.5f),
                     .running_variance = std::vector<float>(channels, 1),
                     .statistics = std::vector<float>(4 * channels),
                     .gamma_gradient = std::vector<float>(channels),
                     .beta_gradient = std::vector<float>(channels)};
    const BatchNormShape shape = {shape_.rows, shape_.channels, number};
    const bool masks = relu_ && residual_;
    forward(BatchNormForward{.shape = shape,
                             .input = x.data(),
                             .residual = residual_ ? r.data() : nullptr,
                             .output = out.data(),
                             .relu = relu_,
                             .gamma = gamma.data(),
                             .beta = beta.data(),
                             .running_mean = result.running_mean.data(),
                             .running_variance = result.running_variance.data(),
                             .statistics = result.statistics.data()});
    backward(BatchNormBackward{.shape = shape,
                               .input = x.data(),
                               .output = out.data(),
                               .gradient = g.data(),
                               .relu = relu_,
                               .statistics = result.statistics.data(),
                               .masked_gradient = masks ? masked.data() : nullptr,
                               .input_gradient = input_gradient.data(),
                               .gamma_gradient = result.gamma_gradient.data(),
                               .beta_gradient = result.beta_gradient.data()});
    result.output = widened(out), result.masked = widened(masked), result.input_gradient = widened(input_gradient);
    return result;
  }

  BatchNormShape shape_;
  bool relu_, residual_;
  RandomKey random_ = RandomKey(7);
  uint64_t next_ = 0;
};

// The largest difference, in units of the largest number, or of 1: gradients of two rows cancel to nearly nothing.
double difference(const std::vector<float>& found, const std::vector<float>& expected) {
  double most = 0, largest = 1;
  for (size_t i = 0; i < found.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(found[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return most / largest;
}

class BatchNormLoops : public ::testing::TestWithParam<std::tuple<int64_t, int64_t, bool, bool>> {};

TEST_P(BatchNormLoops, AreTheReferenceToF32) {
  const auto& [rows, channels, relu, residual] = GetParam();
  Case numbers(rows, channels, relu, residual);
  const Case::Result found = numbers.own(), expected = numbers.reference();
  EXPECT_LT(difference(found.statistics, expected.statistics), 3e-7);
  EXPECT_LT(difference(found.running_mean, expected.running_mean), 3e-7);
  EXPECT_LT(difference(found.running_variance, expected.running_variance), 3e-7);
  EXPECT_LT(difference(found.output, expected.output), 1e-6);
  EXPECT_LT(difference(found.gamma_gradient, expected.gamma_gradient), 5e-6);  // terms of both signs
  EXPECT_LT(difference(found.beta_gradient, expected.beta_gradient), 1e-6);
  EXPECT_LT(difference(found.input_gradient, expected.input_gradient), 1e-6);
  EXPECT_LT(difference(found.masked, expected.masked), 1e-6);
}

TEST_P(BatchNormLoops, HaveTheSameBitsInAnyOrderOfChunks) {
  const auto& [rows, channels, relu, residual] = GetParam();
  Case numbers(rows, channels, relu, residual);
  const Case::Result one = numbers.own(serially), other = numbers.own(backwards);
  EXPECT_EQ(one.output, other.output);
  EXPECT_EQ(one.input_gradient, other.input_gradient);
  EXPECT_EQ(one.gamma_gradient, other.gamma_gradient);
  EXPECT_EQ(one.running_variance, other.running_variance);
}

TEST_P(BatchNormLoops, RoundToBf16WhatTheyMakeOfIt) {
  const auto& [rows, channels, relu, residual] = GetParam();
  Case numbers(rows, channels, relu, residual, DeviceNumber::bf16);
  const Case::Result found = numbers.own(), expected = numbers.reference();
  EXPECT_LT(difference(found.statistics, expected.statistics), 3e-7);
  EXPECT_LT(difference(found.output, expected.output), 0x1p-8);
  EXPECT_LT(difference(found.beta_gradient, expected.beta_gradient), 1e-5);
  EXPECT_LT(difference(found.input_gradient, expected.input_gradient), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchNormLoops,
                         ::testing::Combine(::testing::Values(2, 31, 33, 5000), ::testing::Values(16, 48, 256),
                                            ::testing::Bool(), ::testing::Bool()));

// Squares in f32 of numbers with such a mean would have lost the variance.
TEST(BatchNorm, AVarianceIsNotLostBesideALargeMean) {
  Case numbers(20'000, 16, false, false);
  for (float& value : numbers.input) value = 1000 + 0.01f * value;
  const Case::Result found = numbers.own(), expected = numbers.reference();
  EXPECT_LT(difference(found.running_mean, expected.running_mean), 1e-7);
  for (size_t c = 0; c < 16; ++c)
    EXPECT_NEAR(found.statistics[16 + c] / expected.statistics[16 + c], 1, 1e-4);  // inverse deviations
}

TEST(BatchNorm, WhatIsNotFiniteDoesNotDisappear) {
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {size_t{0}, size_t{16 * 4000 + 3}}) {
      Case numbers(5000, 16, true, false);
      numbers.input[at] = bad;
      const Case::Result found = numbers.own();
      EXPECT_FALSE(std::isfinite(found.running_mean[at % 16])) << bad;
      EXPECT_TRUE(std::isnan(found.output[at % 16])) << bad;
      EXPECT_TRUE(std::isfinite(found.output[(at + 1) % 16])) << bad;
    }
  }
}

}  // namespace
}  // namespace paceline
