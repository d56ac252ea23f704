#include "paceline/gradients/gradient_memory.h"

#include <gtest/gtest.h>

#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

constexpr int64_t kCount = 4096;

TEST(GradientMemory, AutogradMakesAGradientThere) {
  run_ranks(1, [](Group& group) {
    GradientMemory memory(group, {kCount * sizeof(float)});
    torch::Tensor weights = torch::randn({64, 64}).set_requires_grad(true);
    const torch::Tensor input = torch::randn({8, 64});
    for (int step = 0; step < 3; ++step) {
      weights.mutable_grad().reset();
      const torch::Tensor loss = torch::mm(input, weights.t()).square().sum();
      memory.open();
      loss.backward();
      memory.close();
      EXPECT_TRUE(memory.holds(weights.grad()));
    }
    const torch::Tensor there = weights.grad().clone();
    weights.mutable_grad().reset();
    torch::mm(input, weights.t()).square().sum().backward();
    EXPECT_FALSE(memory.holds(weights.grad()));  // it was not open
    EXPECT_TRUE(torch::equal(weights.grad(), there));
  });
}

TEST(GradientMemory, PlacesAreTakenOnceAndGivenBack) {
  run_ranks(1, [](Group& group) {
    GradientMemory memory(group, {kCount * sizeof(float), kCount * sizeof(float)});
    torch::Tensor first = memory.take({64, 64}, {64, 1});
    torch::Tensor second = memory.take({kCount}, {1});
    EXPECT_TRUE(memory.holds(first) && memory.holds(second));
    EXPECT_NE(first.data_ptr(), second.data_ptr());
    EXPECT_FALSE(memory.take({kCount}, {1}).defined());
    void* const place = first.data_ptr();
    first.reset();
    EXPECT_FALSE(memory.take({kCount - 1}, {1}).defined());  // another size
    EXPECT_EQ(memory.take({kCount}, {1}).data_ptr(), place);
  });
}

TEST(GradientMemory, OnlyTheThreadThatOpenedIt) {
  run_ranks(2, [](Group& group) {
    GradientMemory memory(group, {kCount * sizeof(float)});
    if (group.rank() == 0) memory.open();
    group.barrier();
    const torch::Tensor made = torch::empty({kCount});
    EXPECT_EQ(memory.holds(made), group.rank() == 0);
    group.barrier();
  });
}

TEST(GradientMemory, ATensorMayOutliveIt) {
  run_ranks(1, [](Group& group) {
    torch::Tensor tensor;
    {
      GradientMemory memory(group, {kCount * sizeof(float)});
      memory.open();
      tensor = torch::ones({kCount});
      EXPECT_TRUE(memory.holds(tensor));
    }
    EXPECT_EQ(tensor.sum().item<float>(), kCount);
  });
}

}  // namespace
}  // namespace paceline
