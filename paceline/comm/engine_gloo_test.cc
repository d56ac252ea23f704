#include "paceline/comm/engine_gloo.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <latch>

#include "paceline/comm/test_gloo_ranks.h"
#include "paceline/comm/test_group_checks.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kPatientMs = 20'000;

std::string peer_error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const PeerError& error) {
    return error.what();
  }
  return "no error";
}

class GlooEngineTest : public ::testing::TestWithParam<int> {};

TEST_P(GlooEngineTest, DoesWhatEveryGroupDoes) {
  run_gloo_ranks(GetParam(), kPatientMs, [](std::unique_ptr<Group> group) {
    for (const size_t count : {0, 1, 7, 1'000'000}) check_messages(*group, count);
    check_order(*group);
    check_verbs(*group);
    check_splits(*group);
    for (const size_t count : {0, 1, 7, 10'000}) check_native_all_reduce(*group, count);
    group->barrier();  // nobody leaves while others still talk
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, GlooEngineTest, ::testing::Values(1, 2, 4));

TEST(GlooEngine, MessagesOfAnotherSizeNeverMeet) {
  run_gloo_ranks(2, kPatientMs, [](std::unique_ptr<Group> group) {
    std::vector<float> few = {1, 2, 3}, many(5, 9);
    if (group->rank() == 0) {
      Work sent_few = group->send(view(few), 1);
      Work sent_many = group->send(view(many), 1);
      sent_many.wait();
      sent_few.wait();
    } else {
      std::vector<float> got_many(5), got_few(3);
      group->receive(view(got_many), 0).wait();
      group->receive(view(got_few), 0).wait();
      EXPECT_EQ(got_many, many);
      EXPECT_EQ(got_few, few);
    }
    group->barrier();
  });
}

TEST(GlooEngine, ManyBuffersTakeTurnsInTheTable) {
  run_gloo_ranks(2, kPatientMs, [](std::unique_ptr<Group> group) {
    std::vector<int32_t> out(3000), in(3000);
    for (int i = 0; i < 3000; ++i) out[i] = i;
    std::vector<Work> works;
    for (size_t i = 0; i < out.size(); ++i) {
      works.push_back(group->receive(view(in).slice(i, 1), 1 - group->rank()));
      works.push_back(group->send(view(out).slice(i, 1), 1 - group->rank()));
      if (works.size() < 600) continue;
      for (Work& work : works) work.wait();
      works.clear();
    }
    for (Work& work : works) work.wait();
    EXPECT_EQ(in, out);
    group->barrier();
  });
}

TEST(GlooEngine, NamesTheRankThatLeftInTheMiddle) {
  run_gloo_ranks(3, 2000, [](std::unique_ptr<Group> group) {
    group->barrier();
    if (group->rank() == 2) return;
    std::vector<float> data(1000);
    const std::string error = peer_error_of([&] {
      group->perform(Verb::all_reduce, view(data), ReduceOp::sum, -1, [&] { group->receive(view(data), 2).wait(); });
    });
    EXPECT_THAT(
        error, StartsWith(fmt::format("rank {}: receive of 4000 bytes from rank 2 in all_reduce #2 (", group->rank())));
    EXPECT_THAT(error, HasSubstr("by peer"));
  });
}

// Half of the buffer cannot be read, so that the connection breaks when the first half is on its way.
TEST(GlooEngine, BothEndsHearOfAConnectionThatBreaksInTheMiddleOfAMessage) {
  const size_t half = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<std::byte*>(pages) + half, half, PROT_NONE), 0);
  run_gloo_ranks(2, 2000, [&](std::unique_ptr<Group> group) {
    std::vector<uint8_t> data(2 * half), ready(1);
    const std::string error = peer_error_of([&] {
      if (group->rank() == 1) {
        group->receive(view(ready), 0).wait();  // then this thread sends; Gloo's own would end the process
        group->send({pages, 2 * half, DType::u8}, 0).wait();
      } else {
        Work received = group->receive(view(data), 1);
        group->send(view(ready), 1).wait();
        received.wait();
      }
    });
    EXPECT_THAT(error, HasSubstr(group->rank() == 1 ? "rank 1: send of 8192 bytes to rank 0 failed: "
                                                    : "rank 0: receive of 8192 bytes from rank 1 failed: "));
  });
  munmap(pages, 2 * half);
}

TEST(GlooEngine, SaysWhatDidNotFinishInTime) {
  std::latch both_failed(2);
  run_gloo_ranks(2, 300, [&](std::unique_ptr<Group> group) {
    std::vector<float> data(1000);
    const std::string error = peer_error_of([&] { group->receive(view(data), 1 - group->rank()).wait(); });
    EXPECT_EQ(error, fmt::format("rank {}: receive of 4000 bytes from rank {} did not finish in 0.3 s", group->rank(),
                                 1 - group->rank()));
    both_failed.arrive_and_wait();
  });
}

TEST(GlooEngine, ARaisedAlarmEndsAWaitWithItsText) {
  std::latch both_failed(2);
  run_gloo_ranks(2, kPatientMs, [&](std::unique_ptr<Group> group) {
    std::vector<float> data(1000);
    const std::jthread watchdog([&] { group->monitor().alarm().raise("rank 7 was killed by signal 9"); });
    EXPECT_EQ(peer_error_of([&] { group->receive(view(data), 1 - group->rank()).wait(); }),
              "rank 7 was killed by signal 9");
    both_failed.arrive_and_wait();
  });
}

}  // namespace
}  // namespace paceline
