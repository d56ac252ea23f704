// All-reduce of every type and operation, on every grid, with buffers that other ranks see and that they do not.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/node_aware_pipelined.h"
#include "paceline/collectives/node_phase.h"
#include "paceline/collectives/platforms.h"
#include "paceline/collectives/torus2d.h"
#include "paceline/collectives/tree.h"
#include "paceline/comm/engine_local.h"
#include "paceline/core/test_elements.h"

namespace paceline {
namespace {

using ::testing::Each;

// Each() takes seconds for a million elements.
template <class T>
size_t other_than(T value, std::span<const T> data) {
  return data.size() - static_cast<size_t>(std::ranges::count(data, value));
}

// Hosts a, b, a, b ...: of equal size for an even number of ranks.
Topology two_hosts(int ranks) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank % 2 == 0 ? "a" : "b");
  return Topology(hosts);
}

// -0 is 0 here: which of them it is depends on the order.
void drop_sign_of_zero(TensorView data) {
  if (data.dtype == DType::i32 || data.dtype == DType::i64) return;
  auto* bytes = static_cast<uint8_t*>(data.data);
  const size_t size = size_of(data.dtype);
  for (size_t i = 0; i < data.count; ++i, bytes += size) {
    const bool others_zero = std::all_of(bytes, bytes + size - 1, [](uint8_t byte) { return byte == 0; });
    if (others_zero && bytes[size - 1] == 0x80) bytes[size - 1] = 0;
  }
}

int right_value(ReduceOp op, int ranks, size_t i) {
  const int step = static_cast<int>(i % 5) - 2;  // rank r has r * step
  const int last = (ranks - 1) * step;
  if (op == ReduceOp::sum) return step * ranks * (ranks - 1) / 2;
  return op == ReduceOp::max ? std::max(0, last) : std::min(0, last);
}

class AllReduceKindsTest : public ::testing::TestWithParam<std::string> {
 protected:
  const AllReduceAlgorithm& algorithm() const { return all_reduce_algorithm(GetParam()); }

  // On one host and on two, where the algorithm applies.
  void on_ranks(int ranks, bool see_all_memory, const std::function<void(Group&, AllReduce&)>& body) const {
    for (const Topology& topology : {Topology::one_host(ranks), two_hosts(ranks)})
      run_ranks(ranks, LocalOptions{.topology = topology, .see_all_memory = see_all_memory}, [&](Group& group) {
        const Cluster cluster = cluster_of(group);
        if (algorithm().applies(cluster)) body(group, *algorithm().make(group, cluster, cluster.default_grid()));
      });
  }
};

TEST_P(AllReduceKindsTest, EveryTypeAndOperationIsExact) {
  for (const int ranks : {2, 5, 6})
    on_ranks(ranks, true, [&](Group& group, AllReduce& all_reduce) {
      for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
          for (const size_t count : {1, 33}) {
            std::vector<int64_t> room(count), right_room(count);
            const TensorView data = {room.data(), count, dtype};
            const TensorView right = {right_room.data(), count, dtype};
            for (size_t i = 0; i < count; ++i) {
              put(data, i, group.rank() * (static_cast<int>(i % 5) - 2));
              put(right, i, right_value(op, group.size(), i));
            }
            all_reduce.run(data, op);
            drop_sign_of_zero(data);
            EXPECT_EQ(std::memcmp(data.data, right.data, data.bytes()), 0)
                << name_of(dtype) << " " << name_of(op) << " of " << count << ", " << ranks << " ranks";
          }
        }
      }
    });
}

TEST_P(AllReduceKindsTest, BuffersThatOthersCannotSeeAreReducedToo) {
  for (const int ranks : {2, 4})
    on_ranks(ranks, false, [&](Group& group, AllReduce& all_reduce) {
      for (int round = 0; round < 3; ++round) {
        std::vector<float> data(1000, static_cast<float>(group.rank() + round));
        all_reduce.run(view(data), ReduceOp::sum);
        EXPECT_THAT(data, Each(static_cast<float>(ranks * (ranks - 1) / 2 + round * ranks)));
      }
    });
}

TEST_P(AllReduceKindsTest, SomeRanksMayUseAllocatedBuffersAndOthersNot) {
  on_ranks(4, false, [&](Group& group, AllReduce& all_reduce) {
    for (int round = 0; round < 3; ++round) {
      const Memory memory = group.allocate(sizeof(float) * 1000);
      std::vector<float> own(1000);
      const TensorView data = (group.rank() + round) % 2 == 0 ? memory.view(1000, DType::f32) : view(own);
      std::ranges::fill(data.as<float>(), static_cast<float>(group.rank()));
      all_reduce.run(data, ReduceOp::sum);
      EXPECT_THAT(data.as<float>(), Each(6.0f));
      group.barrier();  // nobody writes to it any more
    }
  });
}

TEST_P(AllReduceKindsTest, LargeAndSmallBuffersMayTakeTurns) {
  on_ranks(4, true, [&](Group& group, AllReduce& all_reduce) {
    for (const size_t count : {3, 1'100'000, 5, 600'000, 0, 2}) {
      std::vector<float> data(count, static_cast<float>(group.rank()));
      all_reduce.run(view(data), ReduceOp::max);
      EXPECT_EQ(other_than<float>(3, data), 0u) << count;
    }
  });
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) names.push_back(algorithm.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, AllReduceKindsTest, ::testing::ValuesIn(algorithm_names()),
                         [](const auto& test) { return test.param; });

TEST(Torus2d, EveryGridOfTwelveRanksGivesTheSum) {
  for (const Grid grid : {Grid{1, 12}, {2, 6}, {3, 4}, {4, 3}, {6, 2}, {12, 1}})
    run_ranks(12, LocalOptions{.topology = two_hosts(12)}, [&](Group& group) {
      Torus2d torus(group, grid);
      for (const size_t count : {0, 1, 5, 13, 1000}) {
        std::vector<int32_t> data(count, group.rank() + 1);
        torus.run(view(data), ReduceOp::sum);
        EXPECT_THAT(data, Each(78)) << to_text(grid);
      }
    });
}

TEST(Torus2d, AGridOfAnotherSizeIsABug) {
  EXPECT_THROW(run_ranks(2, [](Group& group) { Torus2d(group, {2, 2}); }), InternalError);
}

TEST(Tree, SumsAtAnyRootAndBringsItToAll) {
  for (const int ranks : {1, 2, 3, 6})
    for (const int root : {0, ranks - 1})
      run_ranks(ranks, [&](Group& group) {
        std::vector<int32_t> data(300'001, group.rank() + 1);
        tree_reduce(group, view(data), root, ReduceOp::sum);
        if (group.rank() == root) {
          EXPECT_EQ(other_than<int32_t>(ranks * (ranks + 1) / 2, data), 0u);
        }
        tree_broadcast(group, view(data), root);
        EXPECT_EQ(other_than<int32_t>(ranks * (ranks + 1) / 2, data), 0u);
      });
}

TEST(NodeAwarePipelined, SegmentsOfOneBufferPassEachOther) {
  const size_t count = 1'600'003;  // 6 MiB and a little
  run_ranks(6, LocalOptions{.topology = two_hosts(6), .see_all_memory = false}, [&](Group& group) {
    Cluster quick_messages = cluster_of(group);
    quick_messages.network.alpha_s = 0;
    ASSERT_EQ(pipeline_segments(quick_messages, static_cast<double>(count * sizeof(int32_t))), 6);
    NodeAwarePipelined all_reduce(group, quick_messages);
    for (int run = 0; run < 3; ++run) {
      std::vector<int32_t> data(count, group.rank() + run);
      all_reduce.run(view(data), ReduceOp::sum);
      EXPECT_EQ(other_than<int32_t>(15 + 6 * run, data), 0u);
    }
  });
}

// The ranks of one host share memory in all other tests here.
TEST(NodePhase, WorksByMessagesWhereNoMemoryIsShared) {
  run_ranks(4, LocalOptions{.topology = two_hosts(4)}, [](Group& group) {
    ASSERT_EQ(group.shared_memory(), nullptr);
    std::vector<int32_t> data(1003, group.rank() + 1);
    int looks = 0;
    NodePhase phase(group, [&] { ++looks; });
    phase.begin(view(data));
    for (size_t index = 0; index < 3; ++index) {
      const TensorView mine = phase.reduce_scatter({index, 3}, ReduceOp::sum);
      EXPECT_THAT(mine.as<int32_t>(), Each(10));
      std::ranges::fill(mine.as<int32_t>(), 11);
      phase.all_gather({index, 3});
    }
    phase.end();
    EXPECT_THAT(data, Each(11));
    EXPECT_EQ(looks, 6);
  });
}

TEST(AllReduceAlgorithm, AnUnknownOneIsRefusedWithTheKnown) {
  try {
    all_reduce_algorithm("rings");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith("there is no all-reduce algorithm 'rings'; did you mean 'ring'?"));
  }
}

}  // namespace
}  // namespace paceline
