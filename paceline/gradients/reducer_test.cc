#include "paceline/gradients/reducer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

torch::Tensor parameter(std::vector<int64_t> shape, double value) {
  return torch::full(shape, value, torch::kFloat32).set_requires_grad(true);
}

std::vector<NamedParameter> named(const std::vector<torch::Tensor>& tensors) {
  std::vector<NamedParameter> parameters;
  for (size_t i = 0; i < tensors.size(); ++i) parameters.push_back({fmt::format("p{}", i), tensors[i]});
  return parameters;
}

bool same(const torch::Tensor& tensor, double value) {
  return tensor.defined() && torch::equal(tensor, torch::full_like(tensor, value));
}

struct Way {
  bool overlap;
  uint64_t bucket_bytes;
};

class ReducerTest : public ::testing::TestWithParam<Way> {
 protected:
  // What a rank does with a reducer over `tensors`; each rank has its own.
  void on_ranks(int ranks, const std::function<void(Group&, Reducer&, std::vector<torch::Tensor>&)>& body) {
    run_ranks(ranks, [&](Group& group) {
      std::vector<torch::Tensor> tensors = {parameter({3, 5}, 1), parameter({7}, 1), parameter({2, 2, 2}, 1)};
      ReducerOptions options;
      options.overlap = GetParam().overlap ? Overlap::always : Overlap::never;
      options.bucket_bytes = GetParam().bucket_bytes;
      Reducer reducer(named(tensors), group, options);
      body(group, reducer, tensors);
    });
  }
};

TEST_P(ReducerTest, GradientsBecomeTheirSumOverTheRanks) {
  on_ranks(3, [](Group& group, Reducer& reducer, std::vector<torch::Tensor>& p) {
    for (int step = 1; step <= 3; ++step) {
      reducer.begin();
      reducer.expect_last_pass();
      const double scale = step * (group.rank() + 1);
      (scale * (p[0].sum() + 2 * p[1].sum() + 3 * p[2].sum())).backward();
      reducer.finish();
      EXPECT_TRUE(same(p[0].grad(), 6 * step));
      EXPECT_TRUE(same(p[1].grad(), 12 * step));
      EXPECT_TRUE(same(p[2].grad(), 18 * step));
    }
  });
}

TEST_P(ReducerTest, AParameterThatIsUsedTwiceOrNotHere) {
  on_ranks(2, [](Group& group, Reducer& reducer, std::vector<torch::Tensor>& p) {
    reducer.begin();
    reducer.expect_last_pass();
    torch::Tensor loss = p[0].sum() + (2 * p[0]).sum();  // twice
    if (group.rank() == 1) loss = loss + p[1].sum();     // on one rank only; p[2] on none
    loss.backward();
    reducer.finish();
    EXPECT_TRUE(same(p[0].grad(), 6));
    EXPECT_TRUE(same(p[1].grad(), 1));
    EXPECT_FALSE(p[2].grad().defined());  // as on a single rank
  });
}

TEST_P(ReducerTest, PassesAreAccumulatedAndCarried) {
  on_ranks(2, [](Group&, Reducer& reducer, std::vector<torch::Tensor>& p) {
    for (int step = 0; step < 2; ++step) {
      reducer.begin();
      p[0].sum().backward();
      (3 * p[0].sum() + p[1].sum()).backward();
      reducer.expect_last_pass(0.5);
      (p[0].sum() + p[2].sum()).backward();
      reducer.finish();
      EXPECT_TRUE(same(p[0].grad(), 2 * (0.5 * 4 + 1)));
      EXPECT_TRUE(same(p[1].grad(), 2 * 0.5));
      EXPECT_TRUE(same(p[2].grad(), 2));
    }
  });
}

TEST_P(ReducerTest, ARankWithoutSamplesCountsAsZero) {
  on_ranks(3, [](Group& group, Reducer& reducer, std::vector<torch::Tensor>& p) {
    for (int step = 0; step < 2; ++step) {
      reducer.begin();
      if (group.rank() == step) {
        reducer.expect_last_pass();
        (p[0].sum() + p[1].sum() + p[2].sum()).backward();
      }
      double riders[] = {1.0 * group.rank(), 1};
      reducer.finish(riders);
      EXPECT_TRUE(same(p[0].grad(), 1));
      EXPECT_TRUE(same(p[2].grad(), 1));
      EXPECT_EQ(riders[0], 3);
      EXPECT_EQ(riders[1], 3);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, ReducerTest,
                         ::testing::Values(Way{true, 0}, Way{true, 4}, Way{true, 64}, Way{false, 4},
                                           Way{false, 1 << 20}));

// The last gradient of backward is held back until the first bucket, which is full by then, has been summed.
TEST(Reducer, AFullBucketIsSummedWhileBackwardStillRuns) {
  run_ranks(2, [](Group& group) {
    std::vector<torch::Tensor> p = {parameter({3, 5}, 1), parameter({7}, 1), parameter({8}, 1)};
    ReducerOptions options;
    options.overlap = Overlap::always;
    options.bucket_bytes = 4;  // each parameter has a bucket of its own
    Reducer reducer(named(p), group, options);
    EXPECT_TRUE(reducer.overlaps());
    bool summed = false;
    p[0].register_hook([&](const torch::Tensor& gradient) {
      if (!p[2].grad().defined()) return gradient;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      const volatile float* const last = p[2].grad().data_ptr<float>() + 7;
      while (!summed && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
        summed = *last == 3;
      }
      return gradient;
    });
    reducer.begin();
    reducer.expect_last_pass();
    torch::Tensor loss = p[0].sum();  // autograd begins with what was computed last
    loss = loss + p[1].sum();
    loss = loss + p[2].sum();
    ((group.rank() + 1) * loss).backward();
    reducer.finish();
    EXPECT_TRUE(summed);
    EXPECT_TRUE(same(p[0].grad(), 3));
  });
}

TEST(Reducer, OfOneRankLeavesGradientsWhereTheyAre) {
  const auto group = make_local_group();
  std::vector<torch::Tensor> tensors = {parameter({4}, 1), parameter({2}, 1)};
  Reducer reducer(named(tensors), *group, {});
  reducer.begin();
  reducer.expect_last_pass();
  (5 * tensors[0].sum()).backward();
  double rider = 2;
  reducer.finish(std::span(&rider, 1));
  EXPECT_TRUE(same(tensors[0].grad(), 5));
  EXPECT_FALSE(tensors[1].grad().defined());
  EXPECT_EQ(rider, 2);
  EXPECT_TRUE(reducer.plan().buckets.empty());
}

TEST(Reducer, GradientsHaveTheLayoutOfTheirParameters) {
  run_ranks(2, [](Group& group) {
    const torch::Tensor weight = torch::ones({4, 3, 2, 2}).contiguous(torch::MemoryFormat::ChannelsLast);
    torch::Tensor parameter = weight.set_requires_grad(true);
    Reducer reducer(named({parameter}), group, {});
    reducer.begin();
    reducer.expect_last_pass();
    const torch::Tensor factors = torch::arange(48, torch::kFloat32).view({4, 3, 2, 2});
    (parameter * factors).sum().backward();
    reducer.finish();
    EXPECT_EQ(parameter.grad().strides(), parameter.strides());
    EXPECT_TRUE(torch::equal(parameter.grad(), 2 * factors));
  });
}

// Large gradients are buckets of their own, summed where autograd made them; what is added to them later, and a place
// that something else has taken, change nothing.
TEST(Reducer, LargeGradientsStayWhereTheyAre) {
  run_ranks(2, [](Group& group) {
    const auto waves = [](int64_t rows, double step) {
      return (torch::arange(rows * 512, torch::kFloat32) * step).sin().view({rows, 512});
    };
    std::vector<torch::Tensor> tensors = {waves(512, 0.7).set_requires_grad(true), parameter({5}, 1),
                                          waves(512, 1.3).set_requires_grad(true)};
    const std::vector<torch::Tensor> alone = {tensors[0].detach().clone().set_requires_grad(true),
                                              tensors[1].detach().clone().set_requires_grad(true),
                                              tensors[2].detach().clone().set_requires_grad(true)};
    const torch::Tensor inputs = waves(6, 2.1);
    const auto loss = [&](const std::vector<torch::Tensor>& p, int rank) {
      return torch::mm(torch::mm(inputs.narrow(0, 3 * rank, 3), p[0].t()).relu(), p[2].t()).square().sum() / 1e4 +
             p[1].sum();
    };
    Reducer reducer(named(tensors), group, {});
    ASSERT_EQ(reducer.plan().buckets.size(), 3u);
    for (int step = 0; step < 3; ++step) {
      for (const torch::Tensor& parameter : alone) parameter.mutable_grad().reset();
      (loss(alone, 0) + loss(alone, 1)).backward();
      reducer.begin();
      if (step == 1) loss(tensors, group.rank()).mul(0).backward();  // a pass before the last
      reducer.expect_last_pass();
      const torch::Tensor stranger = step == 2 ? torch::ones({512, 512}) : torch::Tensor();
      loss(tensors, group.rank()).backward();
      reducer.finish();
      for (size_t i = 0; i < tensors.size(); ++i)
        EXPECT_TRUE(torch::allclose(tensors[i].grad(), alone[i].grad(), 1e-5, 1e-6)) << i;
      if (step == 2) {
        EXPECT_TRUE(same(stranger, 1));
      }
    }
  });
}

TEST(Reducer, APlanOfAnEarlierRunIsUsedWhereItServes) {
  run_ranks(2, [](Group& group) {
    std::vector<torch::Tensor> tensors = {parameter({300}, 1), parameter({5}, 1), parameter({7}, 1)};
    ReductionPlan kept = parse_reduction_plan(Reducer(named(tensors), group, {}).plan_json());
    ASSERT_EQ(kept.buckets.buckets.size(), 1u);
    kept.buckets = plan_buckets(std::vector<size_t>{7, 5, 300}, 4);
    ReducerOptions options;
    if (group.rank() == 0) options.stored_plan = print_reduction_plan(kept);
    Reducer same(named(tensors), group, options);
    EXPECT_EQ(same.plan(), kept.buckets);
    EXPECT_EQ(parse_reduction_plan(same.plan_json()), kept);
    tensors.pop_back();  // another model
    EXPECT_EQ(Reducer(named(tensors), group, options).plan().buckets.size(), 1u);
    if (group.rank() == 0) options.stored_plan = "{ damaged";
    EXPECT_EQ(Reducer(named(tensors), group, options).plan().buckets.size(), 1u);
  });
}

TEST(Reducer, OneRankPaysTheDebtsOfSeveralOnce) {
  const auto group = make_local_group();
  std::vector<torch::Tensor> tensors = {parameter({4}, 1), parameter({2}, 1)};
  Reducer reducer(named(tensors), *group, {});
  reducer.load_state({{"residual.p0", torch::full({4}, 3.0f)}, {"momentum.p0", torch::full({4}, 9.0f)}});
  for (const double expected : {5.0 + 3.0, 5.0}) {
    reducer.begin();
    reducer.expect_last_pass();
    (5 * tensors[0].sum()).backward();
    reducer.finish();
    EXPECT_TRUE(same(tensors[0].grad(), expected));
  }
}

// What a lossy codec owes can be taken out and put back by name.
TEST(Reducer, ItsStateComesBack) {
  run_ranks(2, [](Group& group) {
    std::vector<torch::Tensor> tensors = {parameter({300}, 1), parameter({5}, 1)};
    ReducerOptions options;
    options.sum.codec = builtin_codecs().at("int8")({});
    std::vector<torch::Tensor> others = {parameter({300}, 1), parameter({5}, 1)};
    Reducer first(named(tensors), group, options), second(named(others), group, options);
    const torch::Tensor factors = torch::linspace(-1, 1, 300);
    first.begin();
    first.expect_last_pass();
    ((tensors[0] * factors).sum() * (group.rank() + 1) + tensors[1].sum()).backward();
    first.finish();
    const auto state = first.state();
    ASSERT_EQ(state.size(), 2u);
    EXPECT_GT(state.at("residual.p0").abs().max().item<float>(), 0);
    second.load_state(state);
    for (const auto& [name, tensor] : second.state()) EXPECT_TRUE(torch::equal(tensor, state.at(name))) << name;
  });
}

}  // namespace
}  // namespace paceline
