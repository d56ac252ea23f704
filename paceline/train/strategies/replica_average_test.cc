#include "paceline/train/strategies/replica_average.h"

#include <gtest/gtest.h>

#include "paceline/comm/engine_local.h"
#include "paceline/optim/adam.h"
#include "paceline/optim/sgd.h"

namespace paceline {
namespace {

class TwoTensors : public Model {
 public:
  TwoTensors()
      : weight(register_parameter("weight", torch::ones({2, 3}))), bias(register_parameter("bias", torch::ones({2}))) {}
  torch::Tensor forward(torch::Tensor images) override { return images.matmul(weight.t()) + bias; }
  void set_gradients(double value) {
    for (torch::Tensor* tensor : {&weight, &bias}) tensor->mutable_grad() = torch::full_like(*tensor, value);
  }

  torch::Tensor weight, bias;
};

// The numbers of all ranks, in their order.
std::vector<float> of_ranks(Group& group, const torch::Tensor& tensor) {
  auto mine = tensor.flatten()[0].item<float>();
  std::vector<float> all(static_cast<size_t>(group.size()));
  group.all_gather({&mine, 1, DType::f32}, view(all));
  return all;
}

TEST(ReplicaAverage, ReplicasThatDifferBecomeTheirMeanWeightedBySamples) {
  run_ranks(3, [](Group& group) {
    TwoTensors model;
    Sgd sgd(parameters_of(model), {});
    ReplicaAverage average(model, sgd, group, {}, nullptr);
    for (int step = 0; step < 4; ++step) {  // alone: momentum 0, 1 - 4 * 0.5 * (rank + 1)
      model.set_gradients(group.rank() + 1);
      sgd.step({.rate = 0.5});
    }
    EXPECT_EQ(of_ranks(group, model.weight), (std::vector<float>{-1, -3, -5}));
    std::array<double, 2> riders = {1.0 * group.rank(), 7};
    // The last rank had no samples: what it has does not count, and it gets what the others have.
    const int64_t own = group.rank() == 0 ? 3 : group.rank() == 1 ? 1 : 0;
    average.run({.own = own, .all = 4}, riders);
    EXPECT_EQ(of_ranks(group, model.weight), (std::vector<float>{-1.5, -1.5, -1.5}));
    EXPECT_EQ(of_ranks(group, model.bias), (std::vector<float>{-1.5, -1.5, -1.5}));
    EXPECT_EQ(of_ranks(group, sgd.state().at("momentum/weight")), (std::vector<float>{1.25, 1.25, 1.25}));
    EXPECT_EQ(riders[0], 3);
    EXPECT_EQ(riders[1], 21);
    const Reducer::Cost cost = average.take_cost();
    EXPECT_GT(cost.exposed_ns, 0);
    EXPECT_EQ(cost.busy_ns, cost.exposed_ns);
  });
}

TEST(ReplicaAverage, WhatIsTheSameOnAllRanksStaysSo) {
  run_ranks(3, [](Group& group) {
    TwoTensors model;
    Adam adam(parameters_of(model), {});
    ReplicaAverage average(model, adam, group, {}, nullptr);
    model.set_gradients(0.3);
    adam.step({.rate = 0.1});
    const torch::Tensor weight = model.weight.detach().clone(), first = adam.state().at("first/weight").clone();
    for (int time = 0; time < 1000; ++time) average.run({.own = 5, .all = 15}, {});
    EXPECT_TRUE(torch::allclose(model.weight, weight, 1e-6, 0));
    EXPECT_TRUE(torch::allclose(adam.state().at("first/weight"), first, 1e-6, 0));
    EXPECT_EQ(adam.state().at("step").item<int64_t>(), 1);
  });
}

TEST(ReplicaAverage, AnAlgorithmThatDoesNotApplyIsRefused) {
  EXPECT_THROW(run_ranks(2,
                         [](Group& group) {
                           TwoTensors model;
                           Sgd sgd(parameters_of(model), {});
                           ReplicaAverage(model, sgd, group, {.algorithm = "node_aware"}, nullptr);
                         }),
               UsageError);
}

}  // namespace
}  // namespace paceline
