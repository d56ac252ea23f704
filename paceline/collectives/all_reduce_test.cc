#include "paceline/collectives/all_reduce.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <map>
#include <mutex>

#include "paceline/collectives/platforms.h"
#include "paceline/comm/engine_local.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

using ::testing::Combine;
using ::testing::ValuesIn;

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) names.push_back(algorithm.name);
  return names;
}

// One host; hosts of two; three hosts by turns; a host of all but one rank and the other alone.
std::vector<Topology> topologies(int ranks) {
  std::vector<std::string> pairs, turns, lopsided;
  for (int rank = 0; rank < ranks; ++rank) {
    pairs.push_back(fmt::format("host {}", rank / 2));
    turns.push_back(fmt::format("host {}", rank % 3));
    lopsided.push_back(rank == ranks / 2 ? "alone" : "together");
  }
  return {Topology::one_host(ranks), Topology(pairs), Topology(turns), Topology(lopsided)};
}

// What the ranks of a run got, to be compared bit by bit.
class Gathered {
 public:
  void add(TensorView data) {
    const auto* bytes = static_cast<const std::byte*>(data.data);
    const std::lock_guard lock(mutex_);
    results_.emplace_back(bytes, bytes + data.bytes());
  }
  void expect_all_same() const {
    for (const auto& result : results_) EXPECT_TRUE(result == results_.front());
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> results_;
};

// Calls body(group, all_reduce) on every rank, if the algorithm applies there.
using Body = std::function<void(Group& group, AllReduce& all_reduce)>;
void run_algorithm(const std::string& name, const Topology& topology, const Body& body) {
  const AllReduceAlgorithm& algorithm = all_reduce_algorithm(name);
  run_ranks(topology.ranks(), LocalOptions{.topology = topology}, [&](Group& group) {
    const Cluster cluster = cluster_of(group);
    if (algorithm.applies(cluster)) body(group, *algorithm.make(group, cluster, cluster.default_grid()));
  });
}

int whole_number(size_t index) { return static_cast<int>(index % 97) - 48; }

void expect_the_sum(Group& group, AllReduce& all_reduce, size_t count) {
  std::vector<float> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<float>((group.rank() + 1) * whole_number(i));
  all_reduce.run(view(data), ReduceOp::sum);
  const int factor = group.size() * (group.size() + 1) / 2;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += data[i] != static_cast<float>(factor * whole_number(i)) ? 1 : 0;
  EXPECT_EQ(wrong, 0u) << "rank " << group.rank() << " of " << group.size() << ", " << count << " elements, "
                       << group.topology().hosts() << " hosts";
}

class AllReduceTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  std::string algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};

TEST_P(AllReduceTest, EveryRankHoldsTheSum) {
  for (const Topology& topology : topologies(ranks()))
    run_algorithm(algorithm(), topology, [](Group& group, AllReduce& all_reduce) {
      for (const size_t count : {0, 1, 7, 1000}) expect_the_sum(group, all_reduce, count);
    });
}

TEST_P(AllReduceTest, EveryRankHoldsTheSumOfLargeBuffers) {
#ifdef PACELINE_SANITIZED
  constexpr size_t kCount = 30'011;
#else
  constexpr size_t kCount = 1'000'003;
#endif
  std::atomic<bool> done = false;  // on the first topology on which it applies
  for (const Topology& topology : topologies(ranks())) {
    if (done) return;
    run_algorithm(algorithm(), topology, [&](Group& group, AllReduce& all_reduce) {
      expect_the_sum(group, all_reduce, kCount);
      done = true;
    });
  }
}

TEST_P(AllReduceTest, RandomNumbersSumUpTheSameOnEveryRankAndInEveryRun) {
  const auto number = [](int rank, size_t i) {
    return static_cast<float>(RandomKey(1).with(static_cast<uint64_t>(rank)).uniform(i) - 0.5);
  };
  constexpr size_t kCount = 501;
  std::vector<double> right(kCount);
  for (size_t i = 0; i < kCount; ++i)
    for (int rank = 0; rank < ranks(); ++rank) right[i] += number(rank, i);

  for (const Topology& topology : topologies(ranks())) {
    Gathered results;
    for (int run = 0; run < 2; ++run)
      run_algorithm(algorithm(), topology, [&](Group& group, AllReduce& all_reduce) {
        std::vector<float> data(kCount);
        for (size_t i = 0; i < kCount; ++i) data[i] = number(group.rank(), i);
        all_reduce.run(view(data), ReduceOp::sum);
        for (size_t i = 0; i < kCount; ++i) ASSERT_NEAR(data[i], right[i], 1e-6 * group.size());
        results.add(view(data));
      });
    results.expect_all_same();
  }
}

// a + b and b + a differ in the bits of NaN; max(a, b) and max(b, a) in the sign of zero.
TEST_P(AllReduceTest, NotANumberAndSignedZerosAreTheSameOnEveryRankToo) {
  const auto special = [](int rank, size_t i) {
    const float numbers[] = {0.0f,
                             -0.0f,
                             std::bit_cast<float>(0x7fc00001u + static_cast<uint32_t>(rank)),
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             1.0f};
    return numbers[RandomKey(2).with(static_cast<uint64_t>(rank)).below(i, std::size(numbers))];
  };
  for (const Topology& topology : topologies(ranks())) {
    std::array<Gathered, 3> results;
    run_algorithm(algorithm(), topology, [&](Group& group, AllReduce& all_reduce) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
        std::vector<float> data(64);
        for (size_t i = 0; i < data.size(); ++i) data[i] = special(group.rank(), i);
        all_reduce.run(view(data), op);
        results[static_cast<size_t>(op)].add(view(data));
      }
    });
    for (const Gathered& of_one_operation : results) of_one_operation.expect_all_same();
  }
}

// The tests above say nothing of an algorithm where it does not apply. Of topologies(6), in their order: 1 where it
// runs.
TEST(AllReduceAlgorithms, RunWhereTheyAreMeantTo) {
  const std::map<std::string, std::string> expected = {
      {"ring", "1111"},
      {"recursive_doubling", "1111"},
      {"halving_doubling", "1111"},
      {"hierarchical", "0111"},
      {"torus2d", "1111"},
      {"node_aware", "0110"},
      {"node_aware_pipelined", "0110"},
      {"direct", "1000"},
      {"direct_eager", "1000"},
      {"native", "0000"},  // threads have none: comm/engine_gloo_test.cc, tests/mpi
  };
  std::map<std::string, std::string> found;
  for (const std::string& name : algorithm_names()) {
    for (const Topology& topology : topologies(6)) {
      std::atomic<int> ranks = 0;
      run_algorithm(name, topology, [&](Group&, AllReduce&) { ++ranks; });
      found[name] += ranks == 6 ? "1" : ranks == 0 ? "0" : "?";
    }
  }
  EXPECT_EQ(found, expected);
}

#ifdef PACELINE_SANITIZED
constexpr int kRanks[] = {1, 2, 3, 5, 6, 8};
#else
constexpr int kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16};
#endif
INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, AllReduceTest, Combine(ValuesIn(algorithm_names()), ValuesIn(kRanks)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), std::get<1>(test.param));
                         });

}  // namespace
}  // namespace paceline
