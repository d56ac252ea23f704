// Kernels that update all parameters at once, beside the references of one run of parameters: the same bits, in
// whichever order threads and blocks come; LARS's norms to their rounding.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "host_device.h"
#include "paceline/kernels/adabound.h"
#include "paceline/kernels/adam.h"
#include "paceline/kernels/average.h"
#include "paceline/kernels/lars.h"
#include "paceline/kernels/loss_scale.h"
#include "paceline/kernels/rmsprop.h"
#include "paceline/kernels/sgd.h"
#include "test_table.h"

namespace paceline {
namespace {

using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::Pointwise;

std::vector<TensorShape> all_shapes() {
  std::vector<TensorShape> shapes;
  for (const size_t count : {0, 1, 7, 1000, 8192, 8193, 20'000}) shapes.push_back({.count = count});
  for (const size_t count : {1, 7, 1003, 8193}) {
    shapes.push_back({.count = count, .offset = 1});
    shapes.push_back({.count = count, .decayed = false});
    for (const DeviceNumber type : {DeviceNumber::f16, DeviceNumber::bf16}) {
      shapes.push_back({.count = count, .gradients = type, .has_copy = true});
      shapes.push_back({.count = count, .offset = 3, .gradients = type, .has_copy = true});
    }
  }
  shapes.push_back({.count = 500, .has_gradient = false});
  return shapes;
}

// ---- Optimizers -----------------------------------------------------------------------------------------------------

struct Subject {
  std::string name;
  std::function<void(TestTable&, const DeviceTable&)> update;
  std::function<void(TestTensor&, float scale, int64_t step)> reference;  // of one tensor; steps from 1 on
  bool takes_gradients = true;
  bool is_exact = true;
};

std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }

constexpr double kDecay = 1e-3;

double decay_of(const TestTensor& tensor) { return tensor.shape.decayed ? kDecay : 0; }

Subject sgd(bool nesterov) {
  const SgdCoefficients step = {
      .rate = 0.1f, .momentum = 0.9f, .weight_decay = kDecay, .gradient_scale = 0.5f, .nesterov = nesterov};
  return {nesterov ? "nesterov" : "sgd",
          [=](TestTable&, const DeviceTable& table) {
            sgd_prepare_on_device(table, step);
            sgd_update_on_device(table);
          },
          [=](TestTensor& tensor, float scale, int64_t) {
            SgdCoefficients c = step;
            c.gradient_scale *= scale;
            c.weight_decay = static_cast<float>(decay_of(tensor));
            sgd_update_reference(tensor.weights.data(), tensor.gradient.data(), tensor.first.data(),
                                 tensor.gradient.size(), c);
          }};
}

Subject adam(bool decoupled) {
  const AdamCoefficients step = {.rate = 0.01,
                                 .beta1 = 0.9,
                                 .beta2 = 0.999,
                                 .epsilon = 1e-8,
                                 .weight_decay = kDecay,
                                 .decoupled = decoupled,
                                 .correction1 = NAN,
                                 .correction2 = NAN,
                                 .gradient_scale = 0.5};
  return {decoupled ? "adamw" : "adam",
          [=](TestTable& values, const DeviceTable& table) {
            adam_prepare_on_device(table, step);
            adam_update_on_device(table, &values.steps);
          },
          [=](TestTensor& tensor, float scale, int64_t number) {
            AdamCoefficients c = at_step(step, number);
            c.gradient_scale *= scale;
            c.weight_decay = decay_of(tensor);
            adam_update_reference(tensor.weights.data(), tensor.gradient.data(), tensor.first.data(),
                                  tensor.second.data(), tensor.gradient.size(), c);
          }};
}

Subject rmsprop() {
  const RmspropCoefficients step = {
      .rate = 0.01, .alpha = 0.99, .epsilon = 1e-8, .momentum = 0.9, .weight_decay = kDecay, .gradient_scale = 0.5};
  return {"rmsprop",
          [=](TestTable&, const DeviceTable& table) {
            rmsprop_prepare_on_device(table, step);
            rmsprop_update_on_device(table);
          },
          [=](TestTensor& tensor, float scale, int64_t) {
            RmspropCoefficients c = step;
            c.gradient_scale *= scale;
            c.weight_decay = decay_of(tensor);
            rmsprop_update_reference(tensor.weights.data(), tensor.gradient.data(), tensor.first.data(),
                                     tensor.second.data(), tensor.gradient.size(), c);
          }};
}

AdaboundCoefficients adabound_step(double lower, double upper) {
  return {.rate = 0.01,
          .lower = lower,
          .upper = upper,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .epsilon = 1e-8,
          .weight_decay = kDecay,
          .correction1 = 0.19,
          .correction2 = 0.002,
          .gradient_scale = 0.5};
}

void adabound_reference(TestTensor& tensor, AdaboundCoefficients c, float scale) {
  c.gradient_scale *= scale;
  c.weight_decay = decay_of(tensor);
  adabound_update_reference(tensor.weights.data(), tensor.gradient.data(), tensor.first.data(), tensor.second.data(),
                            tensor.gradient.size(), c);
}

Subject adabound_between(double upper) {
  const AdaboundCoefficients step = adabound_step(0.005, upper);
  return {std::isinf(upper) ? "adabound_unbounded" : "adabound_between",
          [=](TestTable&, const DeviceTable& table) {
            adabound_prepare_on_device(table, step);
            adabound_update_on_device(table, nullptr);
          },
          [=](TestTensor& tensor, float scale, int64_t) { adabound_reference(tensor, step, scale); }};
}

Subject adabound_by_step() {
  const AdaboundByStep by_step = {.c = adabound_step(NAN, NAN), .final_rate = 0.02, .gamma = 0.1};
  return {
      "adabound_by_step",
      [=](TestTable& values, const DeviceTable& table) {
        adabound_prepare_on_device(table, by_step);
        adabound_update_on_device(table, &values.steps);
      },
      [=](TestTensor& tensor, float scale, int64_t number) { adabound_reference(tensor, by_step.at(number), scale); }};
}

Subject average() {
  return {.name = "average",
          .update = [](TestTable&, const DeviceTable& table) { average_update_on_device(table, 0.97); },
          .reference =
              [](TestTensor& tensor, float, int64_t) {
                average_update_reference(tensor.first.data(), tensor.weights.data(), tensor.gradient.size(), 0.97);
              },
          .takes_gradients = false};
}

// The rate of the second step is another one; with `corrected` the momentum follows it.
LarsStep lars_step(int64_t number) {
  return {.rate = number == 1 ? 0.5 : 0.2,
          .eta = 0.02,
          .epsilon = 1e-6,
          .momentum = 0.9,
          .weight_decay = kDecay,
          .gradient_scale = 0.5};
}

Subject lars(bool corrected) {
  return {.name = corrected ? "lars_corrected" : "lars",
          .update =
              [=](TestTable& table, const DeviceTable& on_device) {
                table.sums.assign(2 * on_device.chunk_count, NAN);
                table.rates.assign(on_device.tensor_count, NAN);
                lars_prepare_on_device(on_device, lars_step(++table.steps));
                lars_update_on_device(on_device, table.sums.data(), table.rates.data(),
                                      corrected ? &table.last_rate : nullptr);
              },
          .reference =
              [=](TestTensor& tensor, float scale, int64_t number) {
                const LarsStep step = lars_step(number);
                const size_t count = tensor.gradient.size();
                const SquaredNorms norms =
                    squared_norms_reference(tensor.weights.data(), tensor.gradient.data(), count);
                const double gradient_scale = step.gradient_scale * scale;
                const double rate = lars_rate(step.rate, step.eta, step.epsilon, step.weight_decay,
                                              std::sqrt(norms.weights), gradient_scale * std::sqrt(norms.gradient));
                const double followed = corrected && number == 2 ? 0.2 / 0.5 : 1;
                const LarsCoefficients c = {.local_rate = static_cast<float>(tensor.shape.decayed ? rate : step.rate),
                                            .momentum = static_cast<float>(step.momentum * followed),
                                            .weight_decay = static_cast<float>(decay_of(tensor)),
                                            .gradient_scale = static_cast<float>(gradient_scale)};
                lars_update_reference(tensor.weights.data(), tensor.gradient.data(), tensor.first.data(), count, c);
              },
          .is_exact = false};
}

// ---- Tests ----------------------------------------------------------------------------------------------------------

struct Results {
  std::vector<std::vector<float>> numbers;
  std::vector<std::vector<uint16_t>> copies;
  bool operator==(const Results&) const = default;
};

Results results_of(const TestTable& table) {
  Results results;
  for (const TestTensor& tensor : table.tensors) {
    for (const Placed<float>* part : {&tensor.weights, &tensor.first, &tensor.second}) {
      results.numbers.push_back(part->values());
    }
    results.copies.push_back(tensor.copy.values());
  }
  return results;
}

class OptimizerKernels : public testing::TestWithParam<Subject> {
 protected:
  ~OptimizerKernels() override { host_device::device().order = 0; }

  // Two steps, with other gradients.
  static void make_steps(TestTable& table, uint64_t order) {
    host_device::device().order = order;
    for (uint64_t step = 0; step < 2; ++step) {
      for (TestTensor& tensor : table.tensors) tensor.set_gradient(7000 + 100 * step + tensor.shape.count);
      GetParam().update(table, table.on_device());
    }
  }
};

TEST_P(OptimizerKernels, EqualTheReferenceOfEveryTensor) {
  TestTable table(all_shapes()), expected(all_shapes());
  make_steps(table, 0);
  for (uint64_t step = 0; step < 2; ++step) {
    for (TestTensor& tensor : expected.tensors) {
      tensor.set_gradient(7000 + 100 * step + tensor.shape.count);
      if (!tensor.shape.has_gradient && GetParam().takes_gradients) continue;
      GetParam().reference(tensor, expected.inverse_scale, static_cast<int64_t>(step) + 1);
    }
  }
  const Results found = results_of(table), right = results_of(expected);
  for (size_t i = 0; i < right.numbers.size(); ++i) {
    if (GetParam().is_exact) {
      EXPECT_EQ(found.numbers[i], right.numbers[i]) << "of tensor " << i / 3 << ", part " << i % 3;
    } else {
      EXPECT_THAT(found.numbers[i], Pointwise(FloatNear(1e-6f), right.numbers[i])) << i / 3;
    }
  }
}

TEST_P(OptimizerKernels, KeepTheCopiesOfWeights) {
  if (!GetParam().takes_gradients) GTEST_SKIP() << "writes no weights";
  TestTable table(all_shapes());
  make_steps(table, 0);
  for (const TestTensor& tensor : table.tensors) {
    const std::vector<uint16_t> copy = tensor.copy.values();
    const std::vector<float> weights = tensor.weights.values();
    for (size_t i = 0; i < copy.size(); ++i) ASSERT_EQ(copy[i], bf16_from_float(weights[i])) << tensor.shape.count;
  }
}

TEST_P(OptimizerKernels, DoNotDependOnWhoRunsFirst) {
  TestTable table(all_shapes());
  make_steps(table, 0);
  const Results right = results_of(table);
  for (const uint64_t order : {1, 2}) {
    TestTable other(all_shapes());
    make_steps(other, order);
    EXPECT_EQ(results_of(other), right) << order;
  }
}

TEST_P(OptimizerKernels, ChangeNothingWhereGradientsOverflowed) {
  TestTable table(all_shapes());
  const Results before = results_of(table);
  table.found_inf = 1;
  make_steps(table, 0);
  EXPECT_EQ(results_of(table), before);
  EXPECT_EQ(table.last_rate, 0);
  if (GetParam().name.starts_with("adam") || GetParam().name == "adabound_by_step") {
    EXPECT_EQ(table.steps, 0);
  }
}

TEST_P(OptimizerKernels, TakeMoreTensorsThanOneLaunchDescribes) {
  std::vector<TensorShape> shapes;
  for (size_t i = 0; i < 260; ++i) shapes.push_back({.count = 1 + i * 37 % 50});
  TestTable table(shapes), expected(shapes);
  GetParam().update(table, table.on_device());
  for (TestTensor& tensor : expected.tensors) GetParam().reference(tensor, expected.inverse_scale, 1);
  const Results found = results_of(table), right = results_of(expected);
  for (size_t i = 0; i < right.numbers.size(); ++i) {
    EXPECT_THAT(found.numbers[i], Pointwise(FloatNear(GetParam().is_exact ? 0 : 1e-6f), right.numbers[i])) << i;
  }
}

TEST_P(OptimizerKernels, TakeNoTensorsAtAll) {
  TestTable table({});
  GetParam().update(table, table.on_device());
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerKernels,
                         testing::Values(sgd(false), sgd(true), adam(false), adam(true), rmsprop(),
                                         adabound_between(0.05),
                                         adabound_between(std::numeric_limits<double>::infinity()), adabound_by_step(),
                                         average(), lars(false), lars(true)),
                         [](const auto& info) { return info.param.name; });

TEST(LarsKernel, LeavesTheRateWhereThereIsNothingToAdaptTo) {
  TestTable table({{.count = 9000}, {.count = 9000}});
  table.tensors[0].weights = Placed<float>(std::vector<float>(9000), 0);
  table.tensors[1].gradient.assign(9000, 0.0f);
  table.tensors[1].placed_gradient = Placed<float>(table.tensors[1].gradient, 0);
  lars(false).update(table, table.on_device());
  EXPECT_EQ(table.rates[0], static_cast<float>(lars_step(1).rate));
  EXPECT_NEAR(table.rates[1], lars_step(1).rate * lars_step(1).eta / kDecay, 1e-3);  // decay is all there is
}

TEST(LossScaleKernel, IsTheRuleOfTheHost) {
  for (const bool dynamic : {false, true}) {
    const LossScaleRule rule = {.dynamic = dynamic, .growth_steps = 2, .floor = 4};
    double numbers[2][5] = {{16, 0, 0, 0, 0}, {16, 0, 0, 0, 0}};
    float factors[2][2] = {};
    const auto memory = [&](int i) {
      return LossScaleMemory{&numbers[i][0], &numbers[i][1], &numbers[i][2], &numbers[i][3],
                             &numbers[i][4], &factors[i][0], &factors[i][1]};
    };
    for (const float overflow : {1.0f, 1.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f}) {
      advance_loss_scale_on_device(memory(0), &overflow, rule, nullptr);
      advance(memory(1), overflow != 0, rule);
      EXPECT_THAT(numbers[0], ElementsAreArray(numbers[1]));
      EXPECT_THAT(factors[0], ElementsAreArray(factors[1]));
    }
    EXPECT_EQ(numbers[0][0], dynamic ? 4 : 16);
  }
}

}  // namespace
}  // namespace paceline
