#include "paceline/gradients/communication_thread.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;

TEST(CommunicationThread, RunsJobsInTheirOrderAndFromZeroAgain) {
  for (const bool threaded : {true, false}) {
    std::vector<int> jobs;
    CommunicationThread thread([&](int job) { jobs.push_back(job); }, threaded);
    thread.submit_up_to(2);
    thread.submit_up_to(1);  // is there already
    thread.submit_up_to(3);
    thread.wait_for_all();
    EXPECT_THAT(jobs, ElementsAre(0, 1, 2));
    thread.submit_up_to(1);
    thread.wait_for_all();
    EXPECT_THAT(jobs, ElementsAre(0, 1, 2, 0));
  }
}

// The job ends only after submit_up_to() has returned: run within it, it would wait for ever.
TEST(CommunicationThread, RunsBesideItsCaller) {
  std::latch submitted(1);
  std::atomic<bool> done = false;
  CommunicationThread thread(
      [&](int) {
        submitted.wait();
        done = true;
      },
      /*threaded=*/true);
  thread.submit_up_to(1);
  EXPECT_FALSE(done);
  submitted.count_down();
  thread.wait_for_all();
  EXPECT_TRUE(done);
}

TEST(CommunicationThread, WithoutAThreadRunsWithinSubmit) {
  std::vector<std::thread::id> on;
  CommunicationThread thread([&](int) { on.push_back(std::this_thread::get_id()); }, /*threaded=*/false);
  thread.submit_up_to(2);
  EXPECT_THAT(on, ElementsAre(std::this_thread::get_id(), std::this_thread::get_id()));
}

TEST(CommunicationThread, OneJobIsWaitedForWhileTheNextIsUnderWay) {
  std::latch first_seen(1);
  CommunicationThread thread(
      [&](int job) {
        if (job == 1) first_seen.wait();
      },
      /*threaded=*/true);
  thread.submit_up_to(2);
  thread.wait_for(0);
  first_seen.count_down();
  thread.wait_for(1);
}

TEST(CommunicationThread, AFailureDropsTheRestAndIsToldOnce) {
  std::vector<int> jobs;
  CommunicationThread thread(
      [&](int job) {
        jobs.push_back(job);
        if (job == 1) throw std::runtime_error("the peer is gone");
      },
      /*threaded=*/true);
  thread.submit_up_to(4);
  EXPECT_THROW(thread.wait_for_all(), std::runtime_error);
  EXPECT_THAT(jobs, ElementsAre(0, 1));
  thread.submit_up_to(1);
  EXPECT_NO_THROW(thread.wait_for_all());
  EXPECT_THAT(jobs, ElementsAre(0, 1, 0));
}

TEST(CommunicationThread, EndsAfterTheJobUnderWay) {
  std::latch begun(1);
  std::atomic<int> ended = 0;
  {
    CommunicationThread thread(
        [&](int) {
          begun.count_down();
          ++ended;
        },
        /*threaded=*/true);
    thread.submit_up_to(1);
    begun.wait();
  }
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace paceline
