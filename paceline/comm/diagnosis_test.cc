#include "paceline/comm/diagnosis.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/comm/death_text.h"

namespace paceline {
namespace {

using State = RankStatus::State;

Operation sum_of(uint64_t count, uint64_t sequence) {
  return {Verb::all_reduce, DType::f32, ReduceOp::sum, -1, count, sequence};
}
Operation barrier(uint64_t sequence) { return {.verb = Verb::barrier, .sequence = sequence}; }

constexpr int64_t kTimeoutMs = 30'000;

// What rank 0, in all_reduce #12 for `for_ms`, says of the others.
std::optional<std::string> judge(std::vector<RankStatus> others, int64_t for_ms = 0) {
  const RankStatus mine{0, State::busy, sum_of(1000, 12), for_ms, ""};
  others.push_back(mine);
  return diagnose("world", mine, others, kTimeoutMs);
}

const std::string kMine = "rank 0: all_reduce #12 (sum of 1000 f32, 4000 bytes) in group 'world' ";
const std::string kCannot = kMine + "cannot finish: ";
const std::string kLate = kMine + "did not finish in 30.0 s: ";
const std::string kSame = "; every rank must call the same operations in the same order with the same counts and types";
const std::string kSlow = "; a rank that is only slow needs a longer time-out (PACELINE_TIMEOUT, in seconds)";

TEST(Diagnosis, HasHopeWhileNobodyStandsInTheWay) {
  EXPECT_EQ(judge({}), std::nullopt);
  EXPECT_EQ(judge({{1, State::busy, sum_of(1000, 12), 5, ""},   // in it too
                   {2, State::idle, sum_of(1000, 12), 5, ""},   // has finished it
                   {3, State::ended, sum_of(1000, 12), 5, ""},  // and left
                   {4, State::busy, barrier(13), 5, ""},        // ahead: what it did in #12 is not known
                   {5, State::idle, barrier(13), 5, ""},
                   {6, State::ended, barrier(14), 5, ""},
                   {7, State::busy, barrier(11), 29'999, ""},  // behind: may still come
                   {8, State::idle, barrier(11), 29'999, ""},
                   {9, State::idle, {}, 29'999, ""},
                   {10, State::unknown, {}, 0, ""}},
                  29'999),
            std::nullopt);
}

TEST(Diagnosis, TellsARankThatDied) {
  EXPECT_EQ(judge({{1, State::dead, sum_of(7, 11), 0, "killed by signal 9"}}),
            kCannot + "rank 1 died (killed by signal 9), last seen in all_reduce #11 (sum of 7 f32, 28 bytes)");
  EXPECT_EQ(judge({{1, State::dead, {}, 0, ""}}), kCannot + "rank 1 died");
  EXPECT_EQ(judge({{1, State::dead, {}, 0, std::string(kConnectionLost)}}),
            kCannot + "no connection to rank 1 any more (the network to its host is cut, or that host is down)");
}

TEST(Diagnosis, TakesADeathSeriouslyAlsoOfARankThatWasAhead) {
  EXPECT_EQ(judge({{1, State::dead, barrier(13), 0, "exit code 1"}}),
            kCannot + "rank 1 died (exit code 1), last seen in barrier #13");
}

TEST(Diagnosis, TellsARankThatLeftTooEarly) {
  EXPECT_EQ(judge({{2, State::ended, barrier(11), 0, ""}}), kCannot + "rank 2 left the group after barrier #11");
  EXPECT_EQ(judge({{2, State::ended, {}, 0, ""}}), kCannot + "rank 2 left the group without any operation");
}

TEST(Diagnosis, TellsAnotherCountAtOnce) {
  const std::string text = kCannot + "rank 2 called all_reduce #12 (sum of 999 f32, 3996 bytes)" + kSame;
  EXPECT_EQ(judge({{1, State::busy, sum_of(1000, 12), 0, ""}, {2, State::busy, sum_of(999, 12), 0, ""}}), text);
  EXPECT_EQ(judge({{2, State::idle, sum_of(999, 12), 0, ""}}), text);
  EXPECT_EQ(judge({{2, State::ended, sum_of(999, 12), 0, ""}}), text);
}

TEST(Diagnosis, TellsRanksThatDifferAlikeTogetherWhateverBecameOfThem) {
  EXPECT_EQ(judge({{1, State::idle, sum_of(999, 12), 0, ""},
                   {2, State::busy, sum_of(999, 12), 7, ""},
                   {3, State::ended, sum_of(999, 12), 0, ""}}),
            kCannot + "ranks 1-3 called all_reduce #12 (sum of 999 f32, 3996 bytes)" + kSame);
}

TEST(Diagnosis, TellsAnotherTypeReductionRootOrVerb) {
  Operation other = sum_of(1000, 12);
  other.dtype = DType::i32;
  EXPECT_EQ(judge({{2, State::busy, other, 0, ""}}),
            kCannot + "rank 2 called all_reduce #12 (sum of 1000 i32, 4000 bytes)" + kSame);
  other = sum_of(1000, 12);
  other.reduce = ReduceOp::max;
  EXPECT_EQ(judge({{2, State::busy, other, 0, ""}}),
            kCannot + "rank 2 called all_reduce #12 (max of 1000 f32, 4000 bytes)" + kSame);
  other = {Verb::broadcast, DType::f32, ReduceOp::sum, 1, 1000, 12};
  EXPECT_EQ(judge({{2, State::busy, other, 0, ""}}),
            kCannot + "rank 2 called broadcast #12 (1000 f32, 4000 bytes, from rank 1)" + kSame);
  EXPECT_EQ(judge({{2, State::busy, barrier(12), 0, ""}}), kCannot + "rank 2 called barrier #12" + kSame);
}

TEST(Diagnosis, TellsEverythingThatIsFatalAndNothingElse) {
  EXPECT_EQ(judge({{5, State::idle, barrier(11), 40'000, ""},
                   {4, State::busy, barrier(12), 0, ""},
                   {3, State::ended, barrier(10), 0, ""},
                   {2, State::dead, {}, 0, "exit code 70"},
                   {1, State::unknown, {}, 0, ""}},
                  40'000),
            kCannot + "rank 2 died (exit code 70), rank 3 left the group after barrier #10, rank 4 called barrier #12" +
                kSame);
}

TEST(Diagnosis, TellsAtTheTimeOutWhoHasNotArrivedAndWhatTheyDo) {
  EXPECT_EQ(judge({{1, State::busy, sum_of(1000, 12), 30'000, ""},
                   {2, State::idle, barrier(11), 29'800, ""},
                   {3, State::busy, sum_of(1, 10), 31'000, ""},
                   {4, State::idle, {}, 0, ""},
                   {5, State::unknown, {}, 0, ""}},
                  30'000),
            kLate +
                "rank 4 has not arrived (nor begun any operation), "
                "rank 3 has been in all_reduce #10 (sum of 1 f32, 4 bytes) for 31.0 s, "
                "rank 2 has not arrived (idle for 29.8 s since barrier #11), "
                "nothing was heard of rank 5" +
                kSlow);
}

TEST(Diagnosis, TellsAtTheTimeOutThatNobodyIsMissing) {
  EXPECT_EQ(judge({{1, State::busy, sum_of(1000, 12), 30'000, ""}, {2, State::idle, sum_of(1000, 12), 1, ""}}, 30'000),
            kLate +
                "every other rank is in it or has finished it; either the network is stuck, or the time-out is too "
                "short for so many bytes (PACELINE_TIMEOUT, in seconds)");
}

TEST(Diagnosis, FoldsRanksThatDoTheSame) {
  std::vector<RankStatus> others;
  for (const int rank : {3, 5, 6, 7, 8, 12})
    others.push_back({rank, State::idle, barrier(11), 29'000 + rank * 100, ""});
  for (const int rank : {1, 2}) others.push_back({rank, State::busy, barrier(11), 29'000, ""});
  for (int rank = 20; rank < 4096; ++rank) others.push_back({rank, State::unknown, {}, 0, ""});
  EXPECT_EQ(judge(others, 30'000),
            kLate +
                "ranks 3, 5-8 and 12 have not arrived (idle for up to 30.2 s since barrier #11), "
                "ranks 1 and 2 have been in barrier #11 for 29.0 s, nothing was heard of ranks 20-4095" +
                kSlow);
}

TEST(Diagnosis, StaysReadableWhenEveryRankDiffers) {
  std::vector<RankStatus> others;
  for (int rank = 1; rank < 4096; ++rank)
    others.push_back({rank, State::busy, sum_of(2000 + static_cast<uint64_t>(rank), 12), 0, ""});
  const std::string text = judge(others).value();
  EXPECT_TRUE(
      text.ends_with("rank 8 called all_reduce #12 (sum of 2008 f32, 8032 bytes), and likewise ranks "
                     "9-4095" +
                     kSame))
      << text;
}

TEST(Diagnosis, OfAMessageConcernsItsOtherEndOnly) {
  const RankStatus mine{0, State::busy, {Verb::receive, DType::u8, ReduceOp::sum, 2, 1, 0}, 30'000, ""};
  const std::string receive = "rank 0: receive (1 u8, 1 byte, from rank 2) in group 'world' ";
  const std::vector<RankStatus> one_left{{1, State::dead, {}, 0, ""}, {2, State::ended, barrier(3), 0, ""}};
  EXPECT_EQ(diagnose("world", mine, one_left, kTimeoutMs),
            receive + "cannot finish: rank 2 left the group after barrier #3");
  const std::vector<RankStatus> one_busy{{1, State::dead, {}, 0, ""}, {2, State::busy, barrier(3), 100, ""}};
  EXPECT_EQ(diagnose("world", mine, one_busy, kTimeoutMs),
            receive + "did not finish in 30.0 s: rank 2 has been in barrier #3 for 0.1 s" + kSlow);
}

RankStatus silent_for(int64_t ms, RankStatus status) {
  status.silent_ms = ms;
  return status;
}
RankStatus at_work_for(int64_t ms, RankStatus status) {
  status.chore = Chore::checkpoint;
  status.chore_ms = ms;
  status.since_work_ms = 0;
  return status;
}
RankStatus since_work(int64_t ms, RankStatus status) {
  status.since_work_ms = ms;
  return status;
}

TEST(Diagnosis, TellsARankThatIsStoppedInsideTheOperation) {
  const RankStatus stopped = {1, State::busy, sum_of(1000, 12), 30'000, ""};
  EXPECT_EQ(judge({silent_for(29'000, stopped), {2, State::busy, sum_of(1000, 12), 30'000, ""}}, 30'000),
            kLate +
                "nothing was heard of rank 1 for 29.0 s, last in all_reduce #12 (sum of 1000 f32, 4000 bytes): the "
                "process is stopped, or its host hangs");
  EXPECT_EQ(judge({silent_for(29'000, stopped)}, 29'999), std::nullopt);
  // A watchdog that slept for a moment on a busy host is not stopped.
  EXPECT_EQ(judge({silent_for(4'999, stopped)}, 30'000), judge({stopped}, 30'000));
}

TEST(Diagnosis, TakesARankThatIsStoppedBehindTheOperationForSilentToo) {
  EXPECT_EQ(
      judge({silent_for(29'000, {1, State::idle, barrier(11), 30'000, ""})}, 30'000),
      kLate + "nothing was heard of rank 1 for 29.0 s, last in barrier #11: the process is stopped, or its host hangs");
}

TEST(Diagnosis, ARankThatIsStoppedAfterTheOperationDoesNotStandInTheWay) {
  EXPECT_EQ(judge({silent_for(29'000, {1, State::idle, sum_of(1000, 12), 30'000, ""}),
                   silent_for(29'000, {2, State::busy, barrier(13), 30'000, ""})},
                  30'000),
            judge({}, 30'000));
}

TEST(Diagnosis, WaitsForARankAtWorkAndForOneTimeOutAfterThat) {
  const RankStatus late = {1, State::idle, barrier(11), 90'000, ""};
  EXPECT_EQ(judge({at_work_for(80'000, late)}, 90'000), std::nullopt);
  EXPECT_EQ(judge({since_work(29'999, late)}, 90'000), std::nullopt);
  EXPECT_NE(judge({since_work(30'000, late)}, 90'000), std::nullopt);
}

TEST(Diagnosis, AnOperationThatARankCameToFromItsWorkHasOneTimeOutMore) {
  const RankStatus came = {1, State::busy, sum_of(1000, 12), 5, ""};
  EXPECT_EQ(judge({since_work(29'999, came)}, 90'000), std::nullopt);
  EXPECT_EQ(judge({since_work(30'000, came)}, 90'000), judge({came}, 90'000));
  EXPECT_NE(judge({came}, 90'000), std::nullopt);
}

TEST(Diagnosis, DoesNotWaitForARankAtWorkForEver) {
  const RankStatus late = {1, State::idle, barrier(11), 900'000, ""};
  EXPECT_EQ(judge({at_work_for(899'999, late)}, 900'000), std::nullopt);
  EXPECT_EQ(judge({at_work_for(900'000, late)}, 900'000).value_or("").substr(kMine.size()),
            "did not finish in 900.0 s: rank 1 has not arrived (it writes or reads a checkpoint, for 900.0 s)" + kSlow);
}

TEST(Diagnosis, ARankAtWorkExcusesNoOther) {
  EXPECT_EQ(
      judge({at_work_for(20'000, {1, State::idle, barrier(11), 30'000, ""}), {2, State::idle, barrier(11), 30'000, ""}},
            30'000),
      kLate + "rank 2 has not arrived (idle for 30.0 s since barrier #11)" + kSlow);
  EXPECT_NE(judge({at_work_for(20'000, {1, State::idle, barrier(11), 0, ""}), {2, State::dead, {}, 0, ""}}),
            std::nullopt);
}

TEST(Diagnosis, ARankThatIsStoppedAtWorkIsFound) {
  const RankStatus late = at_work_for(60'000, {1, State::idle, barrier(11), 60'000, ""});
  EXPECT_EQ(judge({silent_for(29'999, late)}, 60'000), std::nullopt);
  EXPECT_NE(judge({silent_for(30'000, late)}, 60'000), std::nullopt);
}

TEST(Diagnosis, FindsTheExcuseThatLastsLongest) {
  const RankStatus mine = {0, State::busy, sum_of(1000, 12), 90'000, ""};
  const RankStatus late = {1, State::idle, barrier(11), 90'000, ""};
  EXPECT_FALSE(find_excuse(mine, std::vector{mine, late}, kTimeoutMs).has_value());
  EXPECT_FALSE(find_excuse(mine, std::vector{mine, since_work(30'000, late)}, kTimeoutMs).has_value());
  const auto before =
      find_excuse(mine, std::vector{mine, since_work(9'000, late), since_work(7'000, late)}, kTimeoutMs);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->since_work_ms, 7'000);
  EXPECT_FALSE(before->direct);
  const auto now = find_excuse(mine, std::vector{mine, since_work(9'000, late), at_work_for(50'000, late)}, kTimeoutMs);
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->since_work_ms, 0);
  EXPECT_TRUE(now->direct);
}

}  // namespace
}  // namespace paceline
