#include "paceline/gradients/data_parallel.h"

#include <gmock/gmock.h>

#include <torch/nn.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

// Weights as the seed says: other ones on every rank, so that the broadcast shows.
struct Net : torch::nn::Module {
  explicit Net(uint64_t seed) {
    auto generator = at::detail::createCPUGenerator(seed);
    weight = register_parameter("weight", torch::randn({6, 3}, generator));
    bias = register_parameter("bias", torch::randn({3}, generator));
    frozen = register_parameter("frozen", torch::ones({3}), /*requires_grad=*/false);
    seen = register_buffer("seen", torch::full({1}, static_cast<double>(seed)));
  }
  torch::Tensor loss(const torch::Tensor& rows) { return ((rows.matmul(weight) + bias) * frozen).square().mean(); }
  torch::Tensor weight, bias, frozen, seen;
};

torch::Tensor rows_of_data() { return torch::linspace(-1, 1, 20 * 6).view({20, 6}); }

void descend(Net& net) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : net.parameters())
    if (parameter.grad().defined()) parameter.detach().sub_(0.1 * parameter.grad());
}

// Some steps on all of the data, on one process: what several must come to.
torch::Tensor expected_weight(int steps) {
  Net net(1);
  for (int step = 0; step < steps; ++step) {
    net.zero_grad();
    net.loss(rows_of_data()).backward();
    descend(net);
  }
  return net.weight.detach().clone();
}

double distance(const torch::Tensor& one, const torch::Tensor& other) {
  return ((one - other).norm() / other.norm()).item<double>();
}

class DataParallelTest : public ::testing::TestWithParam<int> {};

// Shares of other sizes on every rank: 20 rows, rank r has r + 1, the last the rest.
TEST_P(DataParallelTest, SharesOfAnySizeTrainAsOne) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](Group& group) {
    Net net(static_cast<uint64_t>(group.rank()) + 1);
    DataParallel parallel(net, group);
    EXPECT_EQ(net.seen.item<float>(), 1);  // rank 0's
    const int64_t begin = group.rank() * (group.rank() + 1) / 2;
    const int64_t count = group.rank() == ranks - 1 ? 20 - begin : group.rank() + 1;
    for (int step = 0; step < 5; ++step) {
      parallel.backward(net.loss(rows_of_data().narrow(0, begin, count)), count);
      descend(net);
    }
    EXPECT_LT(distance(net.weight.detach(), expected_weight(5)), 1e-5);
  });
}

TEST_P(DataParallelTest, AccumulatedPassesAreOneStep) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](Group& group) {
    Net net(1);
    DataParallel parallel(net, group);
    const torch::Tensor mine = rows_of_data().chunk(ranks)[static_cast<size_t>(group.rank())];
    for (int step = 0; step < 3; ++step) {
      parallel.accumulate(net.loss(mine.narrow(0, 0, 1)), 1);
      parallel.accumulate(net.loss(mine.narrow(0, 1, 2)), 2);
      parallel.backward(net.loss(mine.narrow(0, 3, mine.size(0) - 3)), mine.size(0) - 3);
      descend(net);
    }
    EXPECT_LT(distance(net.weight.detach(), expected_weight(3)), 1e-5);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DataParallelTest, ::testing::Values(1, 2, 3, 4));

TEST(DataParallel, RanksThatRanOutOfDataJoinTheOthers) {
  std::vector<torch::Tensor> weights(3);
  std::vector<int> joined(3);
  run_ranks(3, [&](Group& group) {
    Net net(1);
    DataParallel parallel(net, group);
    const auto rank = static_cast<size_t>(group.rank());
    for (int64_t batch = 0; batch < 2 + group.rank(); ++batch) {
      parallel.backward(net.loss(rows_of_data().narrow(0, batch, 1)), 1);
      descend(net);
    }
    parallel.join([&] {
      ++joined[rank];
      descend(net);
    });
    EXPECT_NEAR(parallel.mean(group.rank(), group.rank() + 1), (0 * 1 + 1 * 2 + 2 * 3) / 6.0, 1e-12);
    EXPECT_EQ(parallel.sum(2), 6);
    weights[rank] = net.weight.detach().clone();
  });
  EXPECT_THAT(joined, ::testing::ElementsAre(2, 1, 0));
  EXPECT_TRUE(torch::equal(weights[0], weights[1]));
  EXPECT_TRUE(torch::equal(weights[0], weights[2]));
}

template <class Failure>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "nothing was thrown";
}

TEST(DataParallel, APlainBackwardIsRefusedInTheFirstStep) {
  std::vector<torch::Tensor> weights(2);
  run_ranks(2, [&](Group& group) {
    Net net(1);
    DataParallel parallel(net, group);
    const torch::Tensor mine = rows_of_data().chunk(2)[static_cast<size_t>(group.rank())];
    for (int step = 0; step < 3; ++step) {
      const std::string text = message_of<UsageError>([&] { net.loss(mine).backward(); });
      EXPECT_THAT(text,
                  ::testing::HasSubstr(fmt::format("rank {}: loss.backward() was called by itself", group.rank())));
      EXPECT_THAT(text, ::testing::HasSubstr("write parallel.backward(loss, samples) in its place"));
      parallel.backward(net.loss(mine), 10);  // nothing is left of the other
      descend(net);
    }
    EXPECT_LT(distance(net.weight.detach(), expected_weight(3)), 1e-5);
  });
}

TEST(DataParallel, APlainBackwardOnOneRankIsTorchs) {
  const auto group = make_local_group();
  Net net(1);
  DataParallel parallel(net, *group);
  net.loss(rows_of_data()).backward();
  EXPECT_TRUE(net.weight.grad().defined());
}

TEST(DataParallel, RanksWithDifferentModulesAreToldInWhat) {
  struct Other : torch::nn::Module {
    explicit Other(int rank, const std::string& difference) {
      register_module("fc", torch::nn::Linear(difference == "shape" && rank == 1 ? 9 : 8, 4));
      if (difference == "missing" && rank != 2) register_parameter("scale", torch::ones({3}));
      if (difference == "more" && rank == 2) register_parameter("scale", torch::ones({3}));
      if (difference == "frozen") register_parameter("scale", torch::ones({3}), /*requires_grad=*/rank != 1);
      if (difference == "buffer") register_buffer("seen", torch::ones({rank == 2 ? 5 : 3}));
    }
  };
  const auto told = [](const std::string& difference) {
    std::vector<std::string> texts(3);
    run_ranks(3, [&](Group& group) {
      Other module(group.rank(), difference);
      texts[static_cast<size_t>(group.rank())] = message_of<UsageError>([&] { DataParallel(module, group); });
    });
    EXPECT_EQ(texts[1], texts[0]);
    EXPECT_EQ(texts[2], texts[0]);
    return texts[0];
  };
  const std::string begin = "the ranks train different modules: ", end = "; build the same one on every rank";
  EXPECT_EQ(told("shape"), begin + "parameter fc.weight is Float [4, 8] on rank 0, and Float [4, 9] on rank 1" + end);
  EXPECT_EQ(told("missing"), begin + "parameter scale is Float [3] on rank 0, and missing on rank 2" + end);
  EXPECT_EQ(told("more"), begin + "parameter scale is Float [3] on rank 2, and missing on rank 0" + end);
  EXPECT_EQ(told("frozen"),
            begin + "parameter scale is Float [3] on rank 0, and Float [3] without requires_grad on rank 1" + end);
  EXPECT_EQ(told("buffer"), begin + "buffer seen is Float [3] on rank 0, and Float [5] on rank 2" + end);
}

TEST(DataParallel, AnUnevenLoopWithoutJoinIsToldOfIt) {
  std::string text;
  run_ranks(2, [&](Group& group) {
    Net net(1);
    DataParallel parallel(net, group);
    parallel.backward(net.loss(rows_of_data()), 20);
    if (group.rank() == 1) return;
    text = message_of<PeerError>([&] { parallel.backward(net.loss(rows_of_data()), 20); });
  });
  EXPECT_THAT(text, ::testing::HasSubstr("rank 1 left the group"));
  EXPECT_THAT(text, ::testing::EndsWith("call parallel.join(step) after the loop on every rank"));
}

// A loss whose backward fails after some gradients are there.
torch::Tensor failing_loss(Net& net) {
  const torch::Tensor rows = rows_of_data().matmul(net.weight);
  rows.register_hook([](const torch::Tensor&) { throw std::runtime_error("out of memory, say"); });
  return (rows + net.bias).square().mean();
}

TEST(DataParallel, AnExceptionInBackwardForgetsTheStep) {
  const auto group = make_local_group();
  for (const bool accumulated : {false, true}) {
    Net net(1);
    DataParallel parallel(net, *group);
    parallel.accumulate(net.loss(rows_of_data()), 20);
    EXPECT_THROW(accumulated ? parallel.accumulate(failing_loss(net), 5) : parallel.backward(failing_loss(net), 5),
                 std::runtime_error);
    parallel.backward(net.loss(rows_of_data()), 20);
    descend(net);
    EXPECT_LT(distance(net.weight.detach(), expected_weight(1)), 1e-6) << accumulated;
  }
}

TEST(DataParallel, AnExceptionWhileRanksSumEndsItForThatRank) {
  std::vector<std::string> texts(2);
  run_ranks(2, [&](Group& group) {
    Net net(1);
    DataParallel parallel(net, group);
    if (group.rank() == 1) {
      EXPECT_THROW(parallel.backward(failing_loss(net), 5), std::runtime_error);
      texts[1] = message_of<UsageError>([&] { parallel.backward(net.loss(rows_of_data()), 20); });
      return;
    }
    texts[0] = message_of<PeerError>([&] { parallel.backward(net.loss(rows_of_data()), 20); });
  });
  EXPECT_THAT(texts[0], ::testing::HasSubstr("rank 1"));
  EXPECT_THAT(texts[1], ::testing::HasSubstr("an exception ended an earlier backward() while 2 ranks were summing it"));
}

// As TEST(BatchStatistics, ...): ranks that have joined do not count for long.
TEST(DataParallel, StatisticsOfRanksThatHaveJoinedFade) {
  run_ranks(2, [&](Group& group) {
    const auto norm = std::make_shared<torch::nn::BatchNorm1dImpl>(torch::nn::BatchNorm1dOptions(6));
    DataParallel parallel(*norm, group);
    const double mean = group.rank() == 0 ? 1 : 5;
    auto generator = at::detail::createCPUGenerator(3);
    for (int step = 0; step < (group.rank() == 0 ? 200 : 100); ++step)
      parallel.backward(norm->forward(torch::randn({8, 6}, generator) + mean).square().mean(), 8);
    if (group.rank() == 0) {
      const torch::Tensor own = norm->running_mean.clone();
      parallel.join([] {});
      parallel.average_statistics();
      EXPECT_LT((norm->running_mean - own).abs().max().item<double>(), 1e-3);
    } else {
      parallel.join([] {});
      parallel.average_statistics();
    }
  });
}

TEST(DataParallel, AStepWithoutSamplesIsRefused) {
  const auto group = make_local_group();
  Net net(1);
  DataParallel parallel(net, *group);
  EXPECT_THROW(parallel.backward(net.loss(rows_of_data()), 0), UsageError);
}

// A program's own: halves that are doubled again, so that nothing is lost but that it was here shows.
class Halving : public Codec {
 public:
  explicit Halving(int& calls) : calls_(calls) {}
  std::string name() const override { return "halving"; }
  bool lossy() const override { return false; }
  size_t most_bytes(size_t count) const override { return count * sizeof(float); }
  double ratio() const override { return 1; }
  size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float>) const override {
    ++calls_;
    auto* out = reinterpret_cast<float*>(wire.data());
    for (size_t i = 0; i < values.size(); ++i) out[i] = values[i] / 2;
    return most_bytes(values.size());
  }
  void decode(std::span<const std::byte> wire, std::span<float> values) const override {
    const auto* in = reinterpret_cast<const float*>(wire.data());
    for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * in[i];
  }
  void decode_add(std::span<const std::byte> wire, std::span<float> values) const override {
    const auto* in = reinterpret_cast<const float*>(wire.data());
    for (size_t i = 0; i < values.size(); ++i) values[i] += 2 * in[i];
  }

 private:
  int& calls_;
};

TEST(DataParallel, TakesACodecFromOutside) {
  std::vector<int> calls(2);
  run_ranks(2, [&](Group& group) {
    Net net(1);
    DataParallel parallel(net, group, {.codec = std::make_shared<Halving>(calls[static_cast<size_t>(group.rank())])});
    const torch::Tensor mine = rows_of_data().chunk(2)[static_cast<size_t>(group.rank())];
    for (int step = 0; step < 3; ++step) {
      parallel.backward(net.loss(mine), 10);
      descend(net);
    }
    EXPECT_LT(distance(net.weight.detach(), expected_weight(3)), 1e-5);
  });
  EXPECT_GT(calls[0], 0);
}

}  // namespace
}  // namespace paceline
