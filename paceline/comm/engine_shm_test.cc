#include "paceline/comm/engine_shm.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <vector>

#include "paceline/comm/segment_arena.h"
#include "paceline/comm/test_processes.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

int files_of(const std::string& job) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    if (file.path().filename().string().starts_with("paceline-" + job + "-")) ++files;
  return files;
}

class ShmEngineTest : public ::testing::TestWithParam<std::tuple<int, size_t>> {};

TEST_P(ShmEngineTest, PrivateAndSharedBuffersArrive) {
  const auto [ranks, count] = GetParam();
  const auto outcomes = run_processes(ranks, 10'000, [&, ranks = ranks, count = count](Group& group) {
    const Memory shared = group.allocate(2 * count * sizeof(int32_t));
    std::vector<int32_t> own(2 * count);
    bool right = true;
    for (const bool in_shared : {false, true}) {
      const TensorView both = in_shared ? shared.view(2 * count, DType::i32) : view(own);
      const TensorView mine = both.first(count), theirs = both.slice(count, count);
      for (int32_t& element : mine.as<int32_t>()) element = group.rank();
      if (ranks > 1) {
        Work received = group.receive(theirs, (group.rank() + ranks - 1) % ranks);
        Work sent = group.send(mine, (group.rank() + 1) % ranks);
        received.wait();
        sent.wait();
        for (const int32_t element : theirs.as<int32_t>()) right &= element == (group.rank() + ranks - 1) % ranks;
      }
      group.broadcast(mine, ranks - 1);
      for (const int32_t element : mine.as<int32_t>()) right &= element == ranks - 1;
    }
    return right;
  });
  for (const ProcessOutcome& outcome : outcomes) EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(files_of("test"), 0) << "all have left";
}

INSTANTIATE_TEST_SUITE_P(RanksAndCounts, ShmEngineTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Values(0, 1, 7, 1000, 300'001)));

TEST(ShmEngine, RanksSeeEachOthersBuffersThroughSplitGroupsToo) {
  const auto outcomes = run_processes(4, 10'000, [](Group& group) {
    const auto part = group.split(group.rank() % 2, 0);
    const Memory memory = part->allocate(1 << 20);
    memory.view(1, DType::i32).as<int32_t>()[0] = 10 + group.rank();
    const auto shown = part->shared_memory()->exchange(memory.view(1, DType::i32));
    const bool right =
        shown[0].as<int32_t>()[0] == 10 + group.rank() % 2 && shown[1].as<int32_t>()[0] == 12 + group.rank() % 2;
    part->barrier();
    return right;
  });
  for (const ProcessOutcome& outcome : outcomes) EXPECT_EQ(outcome.error, "");
}

TEST(ShmEngine, ServesTheLastHostOfAVeryLargeWorld) {
  const auto outcomes = run_processes(
      2, 10'000,
      [](Group& group) {
        const Memory memory = group.allocate(1 << 20);
        memory.view(1, DType::i32).as<int32_t>()[0] = 10 + group.rank();
        const auto shown = group.shared_memory()->exchange(memory.view(1, DType::i32));
        const bool right = shown[0].as<int32_t>()[0] == 10 && shown[1].as<int32_t>()[0] == 11;
        group.barrier();
        return right;
      },
      "large", 999'998);
  for (const ProcessOutcome& outcome : outcomes) EXPECT_EQ(outcome.error, "");
}

TEST(ShmEngine, ARankThatIsKilledLeavesNothingAfterTheNextStart) {
  const auto outcomes = run_processes(
      3, 300,
      [](Group& group) {
        const Memory memory = group.allocate(1 << 20);
        if (group.rank() == 1) kill(getpid(), SIGKILL);
        group.barrier();
        return true;
      },
      "killed");
  EXPECT_TRUE(WIFSIGNALED(outcomes[1].status));
  EXPECT_THAT(outcomes[0].error, HasSubstr("barrier #2 in group 'world' did not finish"));
  EXPECT_THAT(outcomes[0].error, HasSubstr("rank 1"));
  EXPECT_EQ(files_of("killed"), 0) << "the survivors removed them";

  const auto all_killed = run_processes(
      2, 300,
      [](Group& group) {
        const Memory memory = group.allocate(1 << 20);
        group.barrier();
        kill(getpid(), SIGKILL);
        return true;
      },
      "killed");
  EXPECT_GT(files_of("killed"), 0);
  EXPECT_GE(remove_stale_segments(), 1);
  EXPECT_EQ(files_of("killed"), 0);
}

TEST(ShmEngine, FilesOfALivingRunAreLeftAlone) {
  const auto outcomes = run_processes(
      2, 10'000,
      [](Group& group) {
        const Memory memory = group.allocate(1 << 20);
        remove_stale_segments();
        group.barrier();
        const auto shown = group.shared_memory()->exchange(memory.view(16, DType::f32));
        return shown.size() == 2 && files_of("living") == 3;  // control, and a buffer of each
      },
      "living");
  for (const ProcessOutcome& outcome : outcomes) EXPECT_EQ(outcome.error, "");
}

TEST(ShmEngine, MoreThanDevShmHoldsIsAnErrorThatSaysWhatToDo) {
  const auto outcomes = run_processes(1, 10'000, [](Group& group) {
    const Memory memory = group.allocate(size_t{1} << 45);
    return true;
  });
  EXPECT_THAT(outcomes[0].error,
              ::testing::MatchesRegex(
                  "/dev/shm is full: 35184372 MB of shared memory were asked for, [0-9]+ MB are free; remove what "
                  "others left there, make it larger .*, or use another engine \\(gloo, mpi\\)"));
}

TEST(ShmEngine, MemoryThatWasGivenBackIsUsedAgainAndZeroed) {
  const auto outcomes = run_processes(1, 10'000, [](Group& group) {
    Memory memory = group.allocate(100'000);
    void* const first = memory.data();
    std::memset(first, 1, 100'000);
    memory = {};
    memory = group.allocate(99'000);
    return memory.data() == first && static_cast<char*>(first)[0] == 0 && static_cast<char*>(first)[98'999] == 0;
  });
  EXPECT_EQ(outcomes[0].error, "");
}

}  // namespace
}  // namespace paceline
