// On the CPU: what is summed and where. The order of streams is for tests/gpu/nccl_checks.
#include "paceline/gradients/device_buckets.h"

#include <gtest/gtest.h>

#include "paceline/collectives/test_host_communicator.h"
#include "paceline/comm/engine_local.h"
#include "paceline/gradients/reducer.h"

namespace paceline {
namespace {

bool same(const torch::Tensor& tensor, double value) {
  return tensor.defined() && torch::equal(tensor, torch::full_like(tensor, value));
}

TEST(DeviceBuckets, BecomeTheirSumsInTheirPlaces) {
  run_ranks(3, [](Group& group) {
    const BucketPlan plan = plan_buckets(std::vector<size_t>{6, 5, 4}, 4);
    ASSERT_EQ(plan.buckets.size(), 3u);
    DeviceBuckets buckets(group, HostCommunicator::over(group), choose_device_all_reduce("native", group.topology()),
                          plan, torch::kCPU);
    const std::vector<int64_t> rows = {2, 3}, transposed = {1, 2}, flat = {1};
    const torch::Tensor first = buckets.place(0, 0, rows, transposed), second = buckets.place(1, 1, {4}, flat);
    for (int step = 1; step <= 2; ++step) {
      buckets.begin();
      first.copy_((torch::arange(6, torch::kFloat32).view({2, 3}) + group.rank()) * step);
      second.fill_(group.rank());
      buckets.leave_up_to(1);
      buckets.leave_up_to(1);  // nothing new
      buckets.leave_up_to(3);
      buckets.finish();
      EXPECT_TRUE(torch::equal(first, (3 * torch::arange(6, torch::kFloat32).view({2, 3}) + 3) * step));
      EXPECT_TRUE(same(second, 3));
      EXPECT_EQ(first.strides(), at::IntArrayRef(transposed));
    }
  });
}

TEST(DeviceBuckets, AllMustHaveLeftBeforeTheyAreFinished) {
  run_ranks(2, [](Group& group) {
    DeviceBuckets buckets(group, HostCommunicator::over(group), choose_device_all_reduce("native", group.topology()),
                          plan_buckets(std::vector<size_t>{6, 5}, 4), torch::kCPU);
    buckets.leave_up_to(1);
    EXPECT_THROW(buckets.finish(), InternalError);
  });
}

// The way of a CUDA parameter's gradient, with host memory in the place of a device's.
class DeviceReducer : public ::testing::TestWithParam<const char*> {
 protected:
  static ReducerOptions options(const char* algorithm, uint64_t bucket_bytes) {
    ReducerOptions options;
    options.algorithm = algorithm;
    options.bucket_bytes = bucket_bytes;
    options.hybrid.grid = Grid{.x = 2, .y = 2};
    options.communicator = [](Group& group) { return HostCommunicator::over(group); };
    return options;
  }
};

TEST_P(DeviceReducer, SumsWhatTookPart) {
  run_ranks(4, [](Group& group) {
    const auto parameter = [](std::vector<int64_t> shape) { return torch::ones(shape).set_requires_grad(true); };
    std::vector<torch::Tensor> p = {parameter({3, 5}), parameter({7}), parameter({2, 2, 2}), parameter({300, 300})};
    std::vector<NamedParameter> named;
    for (const torch::Tensor& tensor : p) named.push_back({fmt::format("p{}", named.size()), tensor});
    for (const uint64_t bucket_bytes : {0, 4, 64}) {
      Reducer reducer(named, group, options(GetParam(), bucket_bytes));
      EXPECT_TRUE(reducer.overlaps());
      for (int step = 1; step <= 3; ++step) {
        reducer.begin();
        (p[0].sum() * 2).backward();
        reducer.expect_last_pass(0.5);
        torch::Tensor loss = step * (group.rank() + 1) * (p[0].sum() + p[3].sum());
        if (group.rank() == 2) loss = loss + p[1].sum();  // p[2] on no rank
        loss.backward();
        double rider = group.rank();
        reducer.finish(std::span(&rider, 1));
        EXPECT_TRUE(same(p[0].grad(), 10 * step + 4));
        EXPECT_TRUE(same(p[1].grad(), 1));
        EXPECT_FALSE(p[2].grad().defined());
        EXPECT_TRUE(same(p[3].grad(), 10 * step));
        EXPECT_EQ(rider, 6);
      }
      EXPECT_TRUE(reducer.state().empty());
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Algorithms, DeviceReducer, ::testing::Values("hybrid", "native", "torus2d"));

// What a graph replays goes past the host: here nothing is summed, only agreed on.
TEST_F(DeviceReducer, AReplayedStepKeepsRanksInStep) {
  run_ranks(3, [](Group& group) {
    std::vector<torch::Tensor> p = {torch::ones({3}).set_requires_grad(true), torch::ones({2}).set_requires_grad(true)};
    Reducer reducer({{"used", p[0]}, {"unused", p[1]}}, group, options("native", 4));
    const auto step = [&](const torch::Tensor& loss) {
      reducer.begin();
      reducer.expect_last_pass();
      loss.backward();
      double rider = 1;
      reducer.finish(std::span(&rider, 1));
      EXPECT_EQ(rider, 3);
    };
    step(p[0].sum());
    const std::vector<bool> recorded = reducer.took_part();
    EXPECT_EQ(recorded, (std::vector<bool>{false, true}));  // in backward order
    for (int replay = 0; replay < 3; ++replay) {
      double rider = group.rank();
      reducer.repeat(recorded, std::span(&rider, 1));
      EXPECT_EQ(rider, 3);
    }
    step(p[0].sum() + p[1].sum());
    double rider = 0;
    reducer.repeat(reducer.took_part(), std::span(&rider, 1));
    // Rank 1 has recorded a step in which more takes part than the others know of.
    const std::vector<bool> other = group.rank() == 1 ? std::vector<bool>{true, true} : recorded;
    if (group.rank() == 1) {
      reducer.repeat(other, std::span(&rider, 1));
    } else {
      try {
        reducer.repeat(other, std::span(&rider, 1));
        FAIL() << "the graph would leave a parameter out";
      } catch (const TrainingError& error) {
        EXPECT_NE(std::string(error.what()).find("unused takes part in this step"), std::string::npos) << error.what();
      }
    }
  });
}

TEST_F(DeviceReducer, KeepsItsPlan) {
  run_ranks(4, [](Group& group) {
    const std::vector<NamedParameter> named = {{"p", torch::ones({3}).set_requires_grad(true)}};
    const std::string plan = Reducer(named, group, options("torus2d", 64)).plan_json();
    EXPECT_EQ(choice_of(parse_reduction_plan(plan).algorithms), (DeviceAllReduceChoice{"torus2d", {.x = 2, .y = 2}}));
    ReducerOptions resumed = options("torus2d", 64);
    resumed.stored_plan = plan;
    EXPECT_EQ(Reducer(named, group, resumed).plan_json(), plan);
    ReducerOptions on_the_cpu;  // another way of summing: the plan does not serve
    on_the_cpu.algorithm = "torus2d";
    on_the_cpu.bucket_bytes = 64;
    on_the_cpu.stored_plan = plan;
    EXPECT_NE(Reducer(named, group, on_the_cpu).plan_json(), plan);
  });
}

// To the bit: what travels is the same. What does not fit is infinite on a device; on the CPU it travels again as f32.
TEST_F(DeviceReducer, SumsThroughCodecsOf16BitsAsTheCpuDoes) {
  run_ranks(2, [](Group& group) {
    torch::manual_seed(group.rank() + 1);
    torch::Tensor gradient = torch::randn({1000});
    gradient.slice(0, 0, 3) = torch::tensor({30.0f, 1e-7f, 0.0f});
    const torch::Tensor large = gradient.clone();
    large.slice(0, 0, 3) = torch::tensor({70.0f, -1e6f, INFINITY});
    const torch::Tensor parameter = torch::ones({1000}).set_requires_grad(true);
    const auto summed = [&](const torch::Tensor& factors, const ReducerOptions& given, const CodecOptions& codec,
                            const std::string& name) {
      ReducerOptions all = given;
      all.sum.codec = builtin_codecs().at(name)(codec);
      Reducer reducer({{"p", parameter}}, group, all);
      reducer.begin();
      reducer.expect_last_pass();
      (parameter * factors).sum().backward();
      reducer.finish();
      return parameter.grad().clone();
    };
    for (const std::string name : {"fp16", "bf16"}) {
      for (const bool scaled : {false, true}) {
        const ReducerOptions ring = {.bucket_bytes = 4, .algorithm = "ring"};
        const CodecOptions codec = {.scaled = scaled};
        EXPECT_TRUE(torch::equal(summed(gradient, options("native", 4), codec, name), summed(gradient, ring, codec, name)))
            << name << scaled;
        const bool fits = name == "bf16", sent_again = !fits && !scaled;
        const torch::Tensor device = summed(large, options("native", 4), codec, name), cpu = summed(large, ring, codec, name);
        EXPECT_EQ(std::isinf(device[1].item<float>()), !fits) << scaled;
        EXPECT_EQ(std::isinf(device[0].item<float>()), !fits && !scaled);
        EXPECT_TRUE(std::isinf(device[2].item<float>()));
        EXPECT_EQ(cpu[1].item<float>(), sent_again ? -2e6f : device[1].item<float>()) << name << scaled;
        EXPECT_EQ(cpu[0].item<float>(), sent_again ? 140.0f : device[0].item<float>()) << name << scaled;
      }
    }
  });
}

TEST_F(DeviceReducer, RefusesWhatDevicesCannotDo) {
  run_ranks(2, [](Group& group) {
    const std::vector<NamedParameter> named = {{"p", torch::ones({3}).set_requires_grad(true)}};
    EXPECT_THROW(Reducer(named, group, options("ring", 64)), UsageError);
    ReducerOptions packed = options("native", 64);
    packed.sum.codec = builtin_codecs().at("int8")({});
    EXPECT_THROW(Reducer(named, group, packed), UsageError);
  });
}

}  // namespace
}  // namespace paceline
