// One rank of a group, for tests with real processes: group_program ENGINE SCENARIO. Prints what it found on standard
// output; an error is one line on standard error and an exit code, as the real program does it.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/platforms.h"
#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/core/random.h"
#include "paceline/core/sha256.h"
#include "paceline/rendezvous/world.h"

namespace paceline {
namespace {

// Small whole numbers, different on every rank: their sums are exact in any order.
int32_t element(int rank, size_t index) {
  return static_cast<int32_t>((index * 7 + static_cast<size_t>(rank) * 13) % 101);
}

void fill(TensorView data, int rank) {
  for (size_t i = 0; i < data.count; ++i) data.as<float>()[i] = static_cast<float>(element(rank, i));
}

size_t wrong_sums(TensorView data, int ranks) {
  size_t wrong = 0;
  for (size_t i = 0; i < data.count; ++i) {
    int32_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += element(rank, i);
    wrong += data.as<float>()[i] != static_cast<float>(sum) ? 1 : 0;
  }
  return wrong;
}

// Every algorithm that applies, on buffers of the group and on private ones; then numbers whose sums depend on the
// order of the additions, whose hash must be the same on every rank and in every run.
void sums(Group& group) {
  const Cluster cluster = cluster_of(group);
  Sha256 bits;
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) {
    if (!algorithm.applies(cluster)) continue;
    const auto all_reduce = algorithm.make(group, cluster, cluster.default_grid());
    for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}, size_t{1'000'003}}) {
      const Memory shared = group.allocate(count * sizeof(float));
      std::vector<float> own(count);
      for (const TensorView data : {view(own), shared.view(count, DType::f32)}) {
        fill(data, group.rank());
        all_reduce->run(data, ReduceOp::sum);
        if (const size_t wrong = wrong_sums(data, group.size()); wrong > 0)
          throw InternalError(fmt::format("{}: {} of {} sums are wrong", algorithm.name, wrong, count));
      }
      const RandomKey key = RandomKey(1).with(group.rank());
      for (size_t i = 0; i < count; ++i) own[i] = static_cast<float>(key.with(i).value() % 1'000'003) * 1e-3f;
      all_reduce->run(view(own), ReduceOp::sum);
      // MPI and Gloo promise no bits for their own all-reduce.
      if (algorithm.name != "native") bits.update(own.data(), own.size() * sizeof(float));
    }
  }
  fmt::print("sums right, bits {}\n", bits.hex());
}

void sum_some(Group& group, size_t count) {
  std::vector<float> data(count, 1);
  sum_over_ranks(group, view(data));
}

void killed_in_the_middle(Group& group) {
  for (int i = 0; i < 100; ++i) {
    if (i == 50 && group.rank() == 1) raise(SIGKILL);
    sum_some(group, 1000);
  }
}

void never_arrives(Group& group) {
  sum_some(group, 1000);
  if (group.rank() == 1) {
    pause();  // until somebody ends it
    return;
  }
  sum_some(group, 1000);
}

// The others wait inside the library, where no alarm is heard.
void never_arrives_at_native(Group& group) {
  sum_some(group, 1000);
  if (group.rank() == 1) pause();
  std::vector<float> data(1000);
  group.perform(Verb::all_reduce, view(data), ReduceOp::sum, -1,
                [&] { group.native_all_reduce(view(data), ReduceOp::sum); });
}

void another_count(Group& group) {
  sum_some(group, 1000);
  sum_some(group, group.rank() == 1 ? 999 : 1000);
}

void another_order(Group& group) {
  sum_some(group, 1000);
  std::vector<float> data(1000);
  if (group.rank() == 1) {
    group.broadcast(view(data), 0);
    sum_some(group, 1000);
  } else {
    sum_some(group, 1000);
    group.broadcast(view(data), 0);
  }
}

void another_type(Group& group) {
  sum_some(group, 1000);
  std::vector<int32_t> numbers(1000);
  if (group.rank() == 1) return sum_over_ranks(group, view(numbers));
  sum_some(group, 1000);
}

// Rank 1 computes for ever (its share of a step takes longer than the time-out).
void slow(Group& group) {
  sum_some(group, 1000);
  if (group.rank() == 1) {
    volatile bool for_ever = true;
    while (for_ever) {
    }
  }
  sum_some(group, 1000);
}

// SIGSTOP, as a debugger, a full cgroup or an operator stops a process, in the middle of an operation.
void stopped_inside(Group& group, int who) {
  sum_some(group, 1000);
  std::vector<float> data(1000, 1);
  if (group.rank() != who) return sum_over_ranks(group, view(data));
  group.perform(Verb::all_reduce, view(data), ReduceOp::sum, -1, [] { raise(SIGSTOP); });
}

// For three time-outs: the other ranks must wait.
void work_alone(Group& group) {
  const AtWork at_work(group.monitor(), Chore::checkpoint);
  std::this_thread::sleep_for(std::chrono::milliseconds(3 * group.monitor().timeout_ms()));
}

void at_work(Group& group) {
  sum_some(group, 1000);
  if (group.rank() == 1) work_alone(group);
  sum_some(group, 1000);
  fmt::print("done\n");
}

// Rank 2 waits for rank 1 in a group that rank 0, which is at work, is no part of.
void behind_one_at_work(Group& group) {
  const auto first_two = group.split(group.rank() < 2 ? 0 : 1, group.rank());
  const auto last_two = group.split(group.rank() > 0 ? 0 : 1, group.rank());
  if (group.rank() == 0) work_alone(group);
  if (group.rank() < 2) first_two->barrier();
  if (group.rank() > 0) last_two->barrier();
  group.barrier();
  fmt::print("done\n");
}

void stopped_at_work(Group& group) {
  sum_some(group, 1000);
  if (group.rank() == 1) {
    const AtWork at_work(group.monitor(), Chore::checkpoint);
    raise(SIGSTOP);
  }
  sum_some(group, 1000);
}

void leaves_early(Group& group) {
  sum_some(group, 1000);
  if (group.rank() != 1) sum_some(group, 1000);
}

void throws(Group& group) {
  sum_some(group, 1000);
  if (group.rank() == 1) throw DataError("the disk is gone");
  sum_some(group, 1000);
}

void too_much_memory(Group& group) { const Memory memory = group.allocate(size_t{1} << 45); }

// How much of a core a rank uses while it waits for another that takes a second.
void idle(Group& group) {
  group.barrier();
  if (group.rank() == 1) sleep(1);
  rusage before, after;
  getrusage(RUSAGE_THREAD, &before);
  group.barrier();
  getrusage(RUSAGE_THREAD, &after);
  auto ms = [](const timeval& time) { return time.tv_sec * 1000 + time.tv_usec / 1000; };
  fmt::print("cpu_ms {}\n", ms(after.ru_utime) + ms(after.ru_stime) - ms(before.ru_utime) - ms(before.ru_stime));
}

// A second group, over Gloo, for which rank 1 waits until it is told a line.
void late_to_a_gloo_group(World& world) {
  if (world.group().rank() == 1) std::getchar();
  sums(*world.make_group("gloo", "second"));
}

void where(Group& group) {
  fmt::print("rank {} of {} on host {} of {}, engine {}\n", group.rank(), group.size(),
             group.topology().host_of(group.rank()), group.topology().hosts(), group.engine());
}

const std::map<std::string, std::function<void(Group&)>> kScenarios = {
    {"sums", sums},
    {"killed", killed_in_the_middle},
    {"never_arrives", never_arrives},
    {"never_arrives_at_native", never_arrives_at_native},
    {"another_count", another_count},
    {"another_order", another_order},
    {"another_type", another_type},
    {"slow", slow},
    {"stopped_inside", [](Group& group) { stopped_inside(group, 1); }},
    {"first_stopped_inside", [](Group& group) { stopped_inside(group, 0); }},
    {"at_work", at_work},
    {"behind_one_at_work", behind_one_at_work},
    {"stopped_at_work", stopped_at_work},
    {"leaves_early", leaves_early},
    {"throws", throws},
    {"too_much_memory", too_much_memory},
    {"idle", idle},
    {"where", where},
};

const std::map<std::string, std::function<void(World&)>> kScenariosOfWorlds = {
    {"late_to_a_gloo_group", late_to_a_gloo_group},
};

int run(const std::string& engine, const std::string& scenario) {
  try {
    World world = World::connect({.engine = engine});
    if (const auto found = kScenariosOfWorlds.find(scenario); found != kScenariosOfWorlds.end())
      found->second(world);
    else
      kScenarios.at(scenario)(world.group());
    return 0;
  } catch (const Error& error) {
    if (!error.told()) fmt::print(stderr, "paceline: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return paceline::run(argv[1], argv[2]);
}
