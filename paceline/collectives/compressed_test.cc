#include "paceline/collectives/compressed.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "paceline/collectives/platforms.h"
#include "paceline/collectives/ring.h"
#include "paceline/comm/engine_local.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

using ::testing::Combine;
using ::testing::ValuesIn;

constexpr CodecOptions kOptions = {.density = 0.05, .density_warmup = false, .threshold = 0.02, .block = 128};
#ifdef PACELINE_SANITIZED
constexpr size_t kCounts[] = {0, 1, 7, 1000, 3001};
constexpr int kRanks[] = {1, 2, 3, 5};
#else
constexpr int kRanks[] = {1, 2, 3, 4, 5};
constexpr size_t kCounts[] = {0, 1, 7, 1000, 100'003};
#endif

std::unique_ptr<Codec> make(const std::string& name) { return builtin_codecs().at(name)(kOptions); }

std::vector<float> gradients(size_t count, int rank, int step) {
  const RandomKey key = RandomKey(1).with(static_cast<uint64_t>(rank)).with(static_cast<uint64_t>(step));
  std::vector<float> values(count);
  for (size_t pair = 0; pair < (count + 1) / 2; ++pair) {
    const auto [first, second] = key.normal_pair(pair);
    values[2 * pair] = 0.01f * first;
    if (2 * pair + 1 < count) values[2 * pair + 1] = 0.01f * second;
  }
  return values;
}

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::ranges::transform(values, bits.begin(), [](float value) { return std::bit_cast<uint32_t>(value); });
  return bits;
}

struct RankResult {
  std::vector<float> data;
  std::vector<float> residual;
};

// Every rank's result of some steps of gradients, each with the residual that the one before left.
struct Training {
  std::vector<RankResult> ranks;
  std::vector<double> given;    // the sum of all gradients of all steps
  std::vector<double> arrived;  // the sum of all results, as rank 0 got them
};

Training run_steps(const std::string& name, const Topology& topology, size_t count, int steps, bool feedback) {
  Training run;
  run.ranks.resize(static_cast<size_t>(topology.ranks()));
  run.given.resize(count);
  run.arrived.resize(count);
  std::mutex mutex;
  run_ranks(topology.ranks(), LocalOptions{.topology = topology, .see_all_memory = false}, [&](Group& group) {
    const auto codec = make(name);
    CompressedAllReduce all_reduce(group, *codec);
    RankResult& result = run.ranks[static_cast<size_t>(group.rank())];
    result.residual.resize(feedback ? count : 0);
    for (int step = 0; step < steps; ++step) {
      result.data = gradients(count, group.rank(), step);
      {
        const std::lock_guard lock(mutex);
        for (size_t i = 0; i < count; ++i) run.given[i] += result.data[i];
      }
      all_reduce.run(view(result.data), result.residual);
      for (size_t i = 0; i < count && group.rank() == 0; ++i) run.arrived[i] += result.data[i];
    }
  });
  return run;
}

void expect_same_on_every_rank(const Training& run) {
  for (const RankResult& result : run.ranks) EXPECT_TRUE(bits_of(result.data) == bits_of(run.ranks[0].data));
}

// Hosts of two ranks, so that ranks which share no memory are among them.
Topology hosts_of_two(int ranks) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(fmt::format("host {}", rank / 2));
  return Topology(hosts);
}

class CompressedTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  std::string codec() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};

// What travels is right: the sum of what each rank's chunk decodes to, encoded and decoded as a sum.
TEST_P(CompressedTest, EveryRankHoldsTheSumOfWhatWasSent) {
  for (const size_t count : kCounts) {
    const Training run = run_steps(codec(), Topology::one_host(ranks()), count, 1, false);
    expect_same_on_every_rank(run);
    const auto codec_here = make(codec());
    std::vector<float> right(count);
    for (size_t owner = 0; owner < static_cast<size_t>(ranks()); ++owner) {
      std::vector<float> sum;
      for (int rank = 0; rank < ranks(); ++rank) {
        std::vector<float> given = gradients(count, rank, 0);
        const std::span<float> part = chunk(view(given), owner, ranks()).as<float>();
        std::vector<std::byte> wire(codec_here->most_bytes(part.size()));
        wire.resize(codec_here->encode(part, wire, {}));
        sum.resize(part.size());
        codec_here->decode_add(wire, sum);
      }
      std::vector<std::byte> wire(codec_here->most_sum_bytes(sum.size(), ranks()));
      wire.resize(codec_here->encode_sum(sum, wire, {}, ranks()));
      codec_here->decode(wire, chunk(view(right), owner, ranks()).as<float>());
    }
    EXPECT_TRUE(run.ranks[0].data == right) << count << " elements";
  }
}

TEST_P(CompressedTest, WithoutLossTheSumIsTheSum) {
  const bool exact = codec() == "none", nearly = codec() == "fp16" || codec() == "bf16" || codec() == "int8";
  if (!exact && !nearly) return;
  for (const size_t count : kCounts) {
    const Training run = run_steps(codec(), Topology::one_host(ranks()), count, 1, false);
    for (size_t i = 0; i < count; ++i)
      ASSERT_NEAR(run.arrived[i], run.given[i], exact ? 1e-7 : 3e-4 * (ranks() + 1)) << i;
  }
}

TEST_P(CompressedTest, WhatIsGivenArrivesOrStaysInAResidual) {
  for (const size_t count : kCounts) {
    const Training run = run_steps(codec(), Topology::one_host(ranks()), count, 3, true);
    expect_same_on_every_rank(run);
    for (size_t i = 0; i < count; ++i) {
      double kept = 0;
      for (const RankResult& result : run.ranks) kept += result.residual[i];
      ASSERT_NEAR(run.arrived[i] + kept, run.given[i], 1e-7 * ranks()) << i << " of " << count;
    }
  }
}

TEST_P(CompressedTest, TwoRunsGiveTheSameBitsOnAnyHosts) {
  for (const size_t count : {size_t{7}, size_t{1000}}) {
    const Training first = run_steps(codec(), Topology::one_host(ranks()), count, 2, true);
    const Training second = run_steps(codec(), hosts_of_two(ranks()), count, 2, true);
    expect_same_on_every_rank(second);
    for (size_t rank = 0; rank < first.ranks.size(); ++rank) {
      EXPECT_EQ(bits_of(first.ranks[rank].data), bits_of(second.ranks[rank].data));
      EXPECT_EQ(bits_of(first.ranks[rank].residual), bits_of(second.ranks[rank].residual));
    }
  }
}

TEST_P(CompressedTest, SumsOverStepsApproachThoseOfTheGradients) {
  if (!make(codec())->lossy()) return;
  constexpr int kSteps = 50;
  constexpr size_t kCount = 600;
  const Training run = run_steps(codec(), Topology::one_host(ranks()), kCount, kSteps, true);
  double mean_error = 0, largest = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double error = (run.arrived[i] - run.given[i]) / ranks();
    mean_error += error / kCount;
    largest = std::max(largest, std::fabs(error));
  }
  // A rank's gradients have a spread of 0.01, the sum of fifty one of 0.07.
  EXPECT_LE(largest, codec() == "int8" ? 1e-3 : codec() == "threshold" ? 0.021 : 0.12);
  EXPECT_LE(std::fabs(mean_error), 2e-3);
}

TEST_P(CompressedTest, WhatIsNotFiniteIsNoticedOnEveryRankAndGoneInTheNextStep) {
  constexpr size_t kCount = 500;
  run_ranks(ranks(), [&](Group& group) {
    const auto codec_here = make(codec());
    CompressedAllReduce all_reduce(group, *codec_here);
    std::vector<float> data = gradients(kCount, group.rank(), 0), residual(kCount);
    if (group.rank() == ranks() - 1) data[kCount - 1] = std::numeric_limits<float>::quiet_NaN();
    all_reduce.run(view(data), residual);
    const auto finite = [](float value) { return std::isfinite(value); };
    EXPECT_FALSE(std::ranges::all_of(data, finite));
    data = gradients(kCount, group.rank(), 1);
    all_reduce.run(view(data), residual);
    EXPECT_TRUE(std::ranges::all_of(data, finite));
  });
}

INSTANTIATE_TEST_SUITE_P(EveryCodec, CompressedTest, Combine(ValuesIn(builtin_codecs().names()), ValuesIn(kRanks)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), std::get<1>(test.param));
                         });

// A long buffer goes in segments, each as if it were a buffer of its own.
TEST_P(CompressedTest, SegmentsAreSummedAsBuffersOfTheirOwn) {
  constexpr size_t kSegment = 100, kSegments = 7, kCount = kSegment * kSegments + 20;
  const auto probe = make(codec());
  const bool fixed = probe->fixed_length() && probe->fixed_sum_length();
  run_ranks(ranks(), [&](Group& group) {
    const auto codec_here = make(codec());
    CompressedAllReduce in_segments(group, *codec_here, kSegment), whole(group, *codec_here);
    std::vector<float> residual(kCount), residual_apart(kCount);
    for (int step = 0; step < 2; ++step) {
      std::vector<float> data = gradients(kCount, group.rank(), step), apart = data;
      in_segments.run(view(data), residual);
      for (size_t i = 0; i < (fixed ? kSegments : 1); ++i) {
        const TensorView part = fixed ? chunk(view(apart), i, kSegments) : view(apart);
        const TensorView kept = fixed ? chunk(view(residual_apart), i, kSegments) : view(residual_apart);
        whole.run(part, kept.as<float>());
      }
      EXPECT_TRUE(bits_of(data) == bits_of(apart));
      EXPECT_TRUE(bits_of(residual) == bits_of(residual_apart));
    }
  });
}

TEST(Compressed, IsOneOperation) {
  run_ranks(2, [](Group& group) {
    const auto codec = make("threshold");
    CompressedAllReduce all_reduce(group, *codec);
    std::vector<float> data(100, 1.0f);
    all_reduce.run(view(data), {});
    all_reduce.run(view(data), {});
    for (const FlightRecord& record : group.monitor().recorder().records()) {
      EXPECT_EQ(record.operation.verb, Verb::all_reduce);
      EXPECT_LE(record.operation.sequence, 2u);
    }
  });
}

TEST(Compressed, AResidualOfAnotherSizeOrOtherTypesAreAMistake) {
  const auto group = make_local_group();
  const auto codec = make("int8");
  CompressedAllReduce all_reduce(*group, *codec);
  std::vector<float> data(10), residual(9);
  std::vector<double> doubles(10);
  EXPECT_THROW(all_reduce.run(view(data), residual), InternalError);
  EXPECT_THROW(all_reduce.run(view(doubles), {}), InternalError);
}

TEST(CompressedCost, IsThatOfARingForOneRankPerHostAndNoCompression) {
  const Cluster cluster = platform("gloo", 8, 1);
  const Cost packed = compressed_cost(cluster, 64e6, 1, 0), ring = ring_cost(cluster, 64e6);
  EXPECT_EQ(packed.steps, ring.steps);
  EXPECT_DOUBLE_EQ(packed.bytes_per_rank, ring.bytes_per_rank);
  EXPECT_DOUBLE_EQ(packed.network_bytes_per_host, ring.network_bytes_per_host);
  EXPECT_NEAR(packed.seconds, ring.seconds - ring.bytes_per_rank / 2 * cluster.gamma_s_per_byte, 1e-12);
}

TEST(CompressedCost, BytesFallWithTheRatioAndPackingIsHiddenInLongBuffers) {
  const Cluster cluster = platform("gloo", 4, 1);
  const Cost plain = compressed_cost(cluster, 64e6, 1, 0), packed = compressed_cost(cluster, 64e6, 4, 0);
  EXPECT_DOUBLE_EQ(packed.bytes_per_rank, plain.bytes_per_rank / 4);
  const double one = compressed_cost(cluster, 4e6, 4, 0).seconds;
  EXPECT_DOUBLE_EQ(compressed_cost(cluster, 4e6, 4, 1e-10).seconds, one + 4e-4 * 13 / 8);  // one segment: added
  EXPECT_DOUBLE_EQ(compressed_cost(cluster, 64e6, 4, 1e-10).seconds, packed.seconds + 64e-4 * 13 / 8 / 15);
  EXPECT_DOUBLE_EQ(compressed_cost(cluster, 64e6, 4, 1e-6).seconds, 64 * 13 / 8 + packed.seconds / 15);
  // Sparse: the chunks a hundredth of the bytes, the sums a twenty-fifth.
  EXPECT_DOUBLE_EQ(compressed_cost(cluster, 64e6, 100, 0, 25).bytes_per_rank, 0.75 * (64e6 / 100 + 64e6 / 25));
}

TEST(CompressedCost, RanksOfAHostShareItsLink) {
  // 4 hosts of 2: each rank sends 6 of its 8 chunks to other hosts; 7 sums leave a host.
  const Cost cost = compressed_cost(platform("gloo", 8, 2), 8e6, 1, 0);
  EXPECT_DOUBLE_EQ(cost.network_bytes_per_host, 2 * 6e6 + 7e6);
}

}  // namespace
}  // namespace paceline
