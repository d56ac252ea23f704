// The steady state allocates nothing. A program of its own, because it counts all calls of operator new.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/compressed.h"
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

// Calls `run` five times, and then counts in five more. Every rank calls it; rank 0 gets the number, the others 0.
template <class Run>
int64_t allocations_of_later_runs(Group& group, const Run& run) {
  const auto run_five_times = [&] {
    for (int time = 0; time < 5; ++time) run();
    group.barrier();
  };
  run_five_times();
  const int64_t before = allocations;
  group.barrier();
  run_five_times();
  const int64_t after = allocations;
  group.barrier();
  return group.rank() == 0 ? after - before : 0;
}

int64_t allocations_of_later_runs(const AllReduceAlgorithm& algorithm, const Topology& topology, size_t count) {
  std::atomic<int64_t> found = 0;
  run_ranks(topology.ranks(), LocalOptions{.topology = topology, .see_all_memory = false}, [&](Group& group) {
    const Cluster cluster = cluster_of(group);
    if (!algorithm.applies(cluster)) return;
    const auto all_reduce = algorithm.make(group, cluster, cluster.default_grid());
    std::vector<float> data(count);
    found += allocations_of_later_runs(group, [&] { all_reduce->run(view(data), ReduceOp::sum); });
  });
  return found;
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

TEST(CompressedAllReduce, AllocatesNothingOnceItHasSeenItsLargestBuffer) {
  for (const std::string& name : builtin_codecs().names()) {
    for (const size_t count : {7, 30'000}) {
      std::atomic<int64_t> found = 0;
      run_ranks(3, LocalOptions{.topology = Topology({"a", "a", "b"}), .see_all_memory = false}, [&](Group& group) {
        const auto codec = builtin_codecs().at(name)({});
        CompressedAllReduce all_reduce(group, *codec);
        std::vector<float> data(count), residual(count);
        int step = 0;
        found += allocations_of_later_runs(group, [&] {  // what is sent changes from step to step
          ++step;
          for (size_t i = 0; i < count; ++i) data[i] = static_cast<float>((i + 1) * (step + 7) % 101) - 50;
          all_reduce.run(view(data), residual);
        });
      });
      EXPECT_EQ(found, 0) << name << ", " << count << " elements";
    }
  }
}

}  // namespace
}  // namespace paceline
