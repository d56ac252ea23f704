// Batch normalisation's kernels beside their reference: statistics and sums to rounding, what passed the ReLU to the
// bit, and the same bits in whichever order threads and blocks come.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "host_device.h"
#include "paceline/core/half.h"
#include "paceline/kernels/batch_norm.h"
#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

using ::testing::Each;

// rows x channels of any type.
struct Images {
  Images() = default;
  Images(DeviceNumber type_, const std::vector<float>& values) : type(type_) {
    for (const float value : values) {
      if (type == DeviceNumber::f32) singles.push_back(value);
      if (type == DeviceNumber::f16) halves.push_back(f16_from_float(value));
      if (type == DeviceNumber::bf16) halves.push_back(bf16_from_float(value));
    }
  }

  void* data() { return type == DeviceNumber::f32 ? static_cast<void*>(singles.data()) : halves.data(); }

  std::vector<float> values() const {
    std::vector<float> all = singles;
    for (const uint16_t half : halves)
      all.push_back(type == DeviceNumber::f16 ? float_from_f16(half) : float_from_bf16(half));
    return all;
  }

  bool operator==(const Images&) const = default;

  DeviceNumber type = DeviceNumber::f32;
  std::vector<float> singles;
  std::vector<uint16_t> halves;
};

std::vector<float> shifted(float mean, std::vector<float> values) {
  for (float& value : values) value = mean + 2 * value;
  return values;
}

struct Problem {
  Problem(DeviceNumber type, int64_t rows, int64_t channels, bool has_residual_, bool relu_)
      : shape{.rows = rows, .channels = channels, .number = type}, has_residual(has_residual_), relu(relu_) {
    const auto count = static_cast<size_t>(rows * channels), width = static_cast<size_t>(channels);
    const uint64_t seed = static_cast<uint64_t>(17 * rows + channels);
    input = Images(type, shifted(3, random_numbers(seed, count)));
    gradient = Images(type, shifted(0, random_numbers(seed + 1, count)));
    residual = Images(type, shifted(0, random_numbers(seed + 2, count)));
    gamma = random_numbers(seed + 3, width);
    gamma[0] = 0;  // as residual blocks begin
    beta = random_numbers(seed + 4, width);
    running_mean = random_numbers(seed + 5, width);
    running_variance = random_squares(seed + 6, width);
    output = input_gradient = masked_gradient = Images(type, std::vector<float>(count, NAN));
    statistics.assign(BatchNormStatistics::rows * width, NAN);
    gamma_gradient.assign(width, NAN);
    beta_gradient.assign(width, NAN);
    sums.assign(batch_norm_sums(shape), NAN);
    counters.assign(kBatchNormCounters, 77);
  }

  bool masks() const { return has_residual && relu; }

  // The same in f32, for the reference.
  Problem widened() const {
    Problem other = *this;
    other.shape.number = DeviceNumber::f32;
    for (Images Problem::*part : {&Problem::input, &Problem::gradient, &Problem::residual, &Problem::output,
                                  &Problem::input_gradient, &Problem::masked_gradient})
      other.*part = Images(DeviceNumber::f32, (this->*part).values());
    return other;
  }

  BatchNormForward forward() {
    return {.shape = shape,
            .input = input.data(),
            .residual = has_residual ? residual.data() : nullptr,
            .output = output.data(),
            .relu = relu,
            .gamma = gamma.data(),
            .beta = beta.data(),
            .running_mean = running_mean.data(),
            .running_variance = running_variance.data(),
            .batches = &batches,
            .momentum = 0.1f,
            .epsilon = 1e-5f,
            .statistics = statistics.data()};
  }

  BatchNormBackward backward() {
    return {.shape = shape,
            .input = input.data(),
            .output = masks() ? output.data() : nullptr,
            .gradient = gradient.data(),
            .relu = relu,
            .statistics = statistics.data(),
            .masked_gradient = masks() ? masked_gradient.data() : nullptr,
            .input_gradient = input_gradient.data(),
            .gamma_gradient = gamma_gradient.data(),
            .beta_gradient = beta_gradient.data()};
  }

  void run_on_device() {
    const BatchNormWorkspace workspace = {.sums = sums.data(), .counters = counters.data()};
    batch_norm_forward_on_device(forward(), workspace);
    batch_norm_backward_on_device(backward(), workspace);
  }

  BatchNormShape shape;
  bool has_residual, relu;
  Images input, gradient, residual, output, input_gradient, masked_gradient;
  std::vector<float> gamma, beta, running_mean, running_variance, statistics, gamma_gradient, beta_gradient, sums;
  std::vector<uint32_t> counters;
  int64_t batches = 6;
};

// The largest difference, as a share of `scale` (0: of the largest number expected).
double error_of(const std::vector<float>& found, const std::vector<float>& expected, double scale = 0) {
  double most = 0, largest = 0;
  EXPECT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const double apart = std::abs(double{found[i]} - expected[i]);
    if (!(apart <= most)) most = apart;  // what is not a number stays
    largest = std::max(largest, std::abs(double{expected[i]}));
  }
  if (scale == 0) scale = largest;
  return most / (scale > 0 ? scale : 1);
}

// A number rounded the other way differs by one unit in its last place.
double unit(DeviceNumber type) {
  return type == DeviceNumber::f16 ? 1.0 / 1024 : type == DeviceNumber::bf16 ? 1.0 / 128 : 0;
}

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(double{value}));
  return most;
}

void expect_the_references(Problem problem) {
  Problem expected = problem.widened();
  problem.run_on_device();
  batch_norm_forward_reference(expected.forward());
  // Few rows may be nearly alike; the rounding of their mean then counts up to 1/sqrt(epsilon) = 316 times.
  const double limit = problem.shape.rows < 100 ? 1e-4 : 1e-5;
  const auto width = static_cast<ptrdiff_t>(problem.shape.channels);
  const auto row = [&](const Problem& of, ptrdiff_t i) {
    return std::vector<float>(of.statistics.begin() + i * width, of.statistics.begin() + (i + 1) * width);
  };
  for (ptrdiff_t i = 0; i < BatchNormStatistics::rows; ++i) {
    EXPECT_LE(error_of(row(problem, i), row(expected, i)), limit) << "statistics " << i;
  }
  EXPECT_LE(error_of(problem.running_mean, expected.running_mean), limit);
  EXPECT_LE(error_of(problem.running_variance, expected.running_variance), limit);
  EXPECT_EQ(problem.batches, expected.batches);
  EXPECT_LE(error_of(problem.output.values(), expected.output.values()), limit + unit(problem.shape.number));

  // From the same statistics and output: what passed the ReLU must be the same.
  expected.statistics = problem.statistics;
  expected.output = Images(DeviceNumber::f32, problem.output.values());
  batch_norm_backward_reference(expected.backward());
  EXPECT_LE(error_of(problem.gamma_gradient, expected.gamma_gradient), 1e-5);
  EXPECT_LE(error_of(problem.beta_gradient, expected.beta_gradient), 1e-5);
  // As a share of what is subtracted: with two rows nothing but rounding is left.
  const double scale = largest(row(problem, BatchNormStatistics::scale)) * largest(problem.gradient.values());
  EXPECT_LE(error_of(problem.input_gradient.values(), expected.input_gradient.values(), scale),
            limit + unit(problem.shape.number));
  if (problem.masks()) {
    EXPECT_EQ(problem.masked_gradient.values(), expected.masked_gradient.values());
  }
  EXPECT_THAT(problem.counters, Each(0u)) << "not ready for the next launch";
}

struct Kind {
  DeviceNumber type;
  bool residual, relu;
};

class BatchNormKernels : public testing::TestWithParam<Kind> {
 protected:
  ~BatchNormKernels() override { host_device::device() = {}; }

  static Problem problem(int64_t rows, int64_t channels) {
    return Problem(GetParam().type, rows, channels, GetParam().residual, GetParam().relu);
  }
};

TEST_P(BatchNormKernels, EqualTheReference) {
  struct Case {
    int64_t rows, channels;
    int multiprocessors;
  };
  for (const auto& [rows, channels, multiprocessors] :
       {Case{2, 8, 4}, Case{7, 264, 4}, Case{300, 8, 4}, Case{300, 264, 2}, Case{1000, 64, 1}}) {
    host_device::device().multiprocessors = multiprocessors;
    SCOPED_TRACE(testing::Message() << rows << " x " << channels << " on " << multiprocessors);
    expect_the_references(problem(rows, channels));
  }
}

TEST_P(BatchNormKernels, TakeChannelsThatFillSeveralTiles) { expect_the_references(problem(9, 2048)); }

TEST_P(BatchNormKernels, DoNotDependOnWhoRunsFirst) {
  Problem first = problem(333, 72);
  first.run_on_device();
  for (const uint64_t order : {1, 2}) {
    host_device::device().order = order;
    Problem other = problem(333, 72);
    other.run_on_device();
    EXPECT_LE(error_of(other.statistics, first.statistics), 0) << order;
    EXPECT_LE(error_of(other.gamma_gradient, first.gamma_gradient), 0);
    EXPECT_LE(error_of(other.beta_gradient, first.beta_gradient), 0);
    EXPECT_EQ(other.output, first.output);
    EXPECT_EQ(other.input_gradient, first.input_gradient);
    if (first.masks()) {
      EXPECT_EQ(other.masked_gradient, first.masked_gradient);
    }
  }
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds;
  for (const DeviceNumber type : {DeviceNumber::f32, DeviceNumber::f16, DeviceNumber::bf16}) {
    for (const bool residual : {false, true}) {
      for (const bool relu : {false, true}) kinds.push_back({type, residual, relu});
    }
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(All, BatchNormKernels, testing::ValuesIn(all_kinds()), [](const auto& info) {
  const Kind& kind = info.param;
  return std::string(kind.type == DeviceNumber::f32   ? "f32"
                     : kind.type == DeviceNumber::f16 ? "f16"
                                                      : "bf16") +
         (kind.residual ? "_residual" : "") + (kind.relu ? "_relu" : "");
});

// Far from 0, where a sum of squares would have no digits left.
TEST(BatchNormKernel, KnowsTheDeviationFarFromZero) {
  Problem problem(DeviceNumber::f32, 2000, 8, false, false);
  for (float& value : problem.input.singles) value = 1000 + 0.05f * value;
  Problem expected = problem.widened();
  problem.run_on_device();
  batch_norm_forward_reference(expected.forward());
  EXPECT_LE(error_of(problem.statistics, expected.statistics), 1e-4);
}

// Where one value is not a number its channel has none, and the others are as they would be.
TEST(BatchNormKernel, KeepsWhatIsNotANumberInItsChannel) {
  Problem problem(DeviceNumber::f16, 100, 16, false, true);
  Problem clean = problem;
  problem.input.halves[50 * 16 + 7] = f16_from_float(NAN);
  problem.run_on_device();
  clean.run_on_device();
  for (size_t i = 0; i < problem.output.halves.size(); ++i) {
    const float out = float_from_f16(problem.output.halves[i]),
                gradient = float_from_f16(problem.input_gradient.halves[i]);
    if (i % 16 == 7) {
      EXPECT_TRUE(std::isnan(out) && std::isnan(gradient)) << i;
    } else {
      EXPECT_EQ(problem.output.halves[i], clean.output.halves[i]) << i;
    }
  }
}

}  // namespace
}  // namespace paceline
