// The steady state allocates nothing. A program of its own, because it counts all calls of operator new.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/hybrid.h"
#include "paceline/collectives/platforms.h"
#include "paceline/comm/engine_local.h"

namespace {
std::atomic<int64_t> allocations = 0;

void* counted(size_t bytes, size_t alignment) {
  ++allocations;
  void* const room = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (room == nullptr) throw std::bad_alloc();
  return room;
}
}  // namespace

// All of them: a sanitizer has its own of those that are left out, and takes a mixture for a mistake.
void* operator new(size_t bytes) { return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new[](size_t bytes) { return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return ::operator new(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return ::operator new[](bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<size_t>(alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* room) noexcept { std::free(room); }
void operator delete[](void* room) noexcept { std::free(room); }
void operator delete(void* room, size_t) noexcept { std::free(room); }
void operator delete[](void* room, size_t) noexcept { std::free(room); }
void operator delete(void* room, std::align_val_t) noexcept { std::free(room); }
void operator delete[](void* room, std::align_val_t) noexcept { std::free(room); }
void operator delete(void* room, size_t, std::align_val_t) noexcept { std::free(room); }
void operator delete[](void* room, size_t, std::align_val_t) noexcept { std::free(room); }

namespace paceline {
namespace {

int64_t allocations_of_later_runs(const AllReduceAlgorithm& algorithm, const Topology& topology, size_t count) {
  std::atomic<int64_t> before = 0, after = 0;
  run_ranks(topology.ranks(), LocalOptions{.topology = topology, .see_all_memory = false}, [&](Group& group) {
    const Cluster cluster = cluster_of(group);
    if (!algorithm.applies(cluster)) return;
    const auto all_reduce = algorithm.make(group, cluster, cluster.default_grid());
    std::vector<float> data(count);
    const auto run_five_times = [&] {
      for (int run = 0; run < 5; ++run) all_reduce->run(view(data), ReduceOp::sum);
      group.barrier();
    };
    run_five_times();
    if (group.rank() == 0) before = allocations.load();
    group.barrier();
    run_five_times();
    if (group.rank() == 0) after = allocations.load();
    group.barrier();
  });
  return after - before;
}

TEST(AllReduceAlgorithms, AllocateNothingOnceTheyHaveSeenTheirLargestBuffer) {
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms())
    for (const Topology& topology : {Topology::one_host(3), Topology({"a", "a", "b", "b"})})
      for (const size_t count : {7, 300'000})
        EXPECT_EQ(allocations_of_later_runs(algorithm, topology, count), 0)
            << algorithm.name << ", " << count << " elements on " << topology.ranks() << " ranks";
}

TEST(Hybrid, AllocatesNothingOnceItHasSeenItsLargestBuffer) {
  const AllReduceAlgorithm hybrid = {
      .name = "hybrid",
      .applies = [](const Cluster&) { return true; },
      .make = [](Group& group, const Cluster& cluster,
                 Grid grid) { return std::make_unique<Hybrid>(group, make_plan(cluster, grid, nullptr)); }};
  for (const size_t count : {7, 300'000})
    EXPECT_EQ(allocations_of_later_runs(hybrid, Topology::one_host(3), count), 0) << count << " elements";
}

}  // namespace
}  // namespace paceline
