#include "paceline/comm/flight_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using State = FlightRecord::State;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kNoonNs = 1'772'366'400'000 * kMs;  // 2026-03-01T12:00:00Z

Operation sum_of(uint64_t count, uint64_t sequence) {
  return {Verb::all_reduce, DType::f32, ReduceOp::sum, -1, count, sequence};
}

FlightLog log_of(int rank, int size = 2) {
  return {.rank = rank, .size = size, .engine = "shm", .host = "node1", .groups = {"world"}};
}

// Times are milliseconds after noon.
void add(FlightLog& log, const Operation& operation, State state, int64_t begin_ms, int64_t end_ms,
         uint32_t group = 0) {
  log.records.push_back({group, state, operation, kNoonNs + begin_ms * kMs,
                         state == State::under_way ? 0 : kNoonNs + end_ms * kMs});
}

TEST(FlightComparison, OfOneFileShowsItsLastOperations) {
  FlightLog log = log_of(1);
  log.failure = "rank 1: rank 0 died";
  for (uint64_t number = 1; number <= 24; ++number)
    add(log, sum_of(10, number), State::done, static_cast<int64_t>(number), static_cast<int64_t>(number) + 1);
  add(log, {.verb = Verb::barrier, .sequence = 25}, State::failed, 30, 2030);
  add(log, {.verb = Verb::barrier, .sequence = 26}, State::under_way, 2040, 0);
  const std::string text = compare_flight_logs({log});
  EXPECT_THAT(text,
              HasSubstr("flight records of 1 of 2 ranks, generation 0\n\n"
                        "rank 1 on node1, engine shm\n"
                        "    rank 1: rank 0 died\n"
                        "no file of rank 0: killed, or the file is on another host\n"
                        "times are UTC\n\n"
                        "the last 20 of 26 recorded operations, 2026-03-01:\n"
                        "  12:00:00.007000  world  all_reduce #7 (sum of 10 f32, 40 bytes)   finished after 1.0 ms\n"));
  EXPECT_TRUE(text.ends_with(
      "  12:00:00.030000  world  barrier #25                               failed after 2.0 s\n"
      "  12:00:02.040000  world  barrier #26                               under way since 12:00:02.040000\n"))
      << text;
}

TEST(FlightComparison, GivesNoDurationWhereNoneWasTaken) {
  FlightLog log = log_of(1);
  add(log, sum_of(10, 1), State::done, 1, 2);
  log.records.back().end_ns = 0;
  EXPECT_THAT(compare_flight_logs({log}), HasSubstr("all_reduce #1 (sum of 10 f32, 40 bytes)  finished\n"));
}

TEST(FlightComparison, OfOneFileWithoutOperationsSaysSo) {
  EXPECT_THAT(compare_flight_logs({log_of(0)}), HasSubstr("no operations were recorded\n"));
}

TEST(FlightComparison, ShowsWhoDidNotBeginAndWhoDiffers) {
  FlightLog zero = log_of(0, 5);
  FlightLog one = log_of(1, 5);
  FlightLog two = log_of(2, 5);
  FlightLog four = log_of(4, 5);
  four.host = "node2";
  zero.failure = "rank 0: all_reduce #12 cannot finish";
  for (FlightLog* log : {&zero, &one, &two, &four}) add(*log, sum_of(1000, 11), State::done, 10 + log->rank, 20);
  add(zero, sum_of(1000, 12), State::failed, 30, 30'030);
  add(one, sum_of(1000, 12), State::under_way, 32, 0);
  add(two, sum_of(999, 12), State::failed, 31, 30'031);
  EXPECT_EQ(compare_flight_logs({four, two, zero, one}),
            "flight records of 4 of 5 ranks, generation 0\n"
            "\n"
            "rank 0 on node1, engine shm\n"
            "    rank 0: all_reduce #12 cannot finish\n"
            "rank 1 on node1, engine shm\n"
            "    no failure\n"
            "rank 2 on node1, engine shm\n"
            "    no failure\n"
            "rank 4 on node2, engine shm\n"
            "    no failure\n"
            "no file of rank 3: killed, or the file is on another host\n"
            "times are UTC, by each host's own clock\n"
            "\n"
            "group 'world', ranks 0-2 and 4\n"
            "  all finished  all_reduce #11 (sum of 1000 f32, 4000 bytes)\n"
            "  then          all_reduce #12 (sum of 1000 f32, 4000 bytes), from 12:00:00.030000 on\n"
            "    rank 0     +0.0 us  failed, after 30.0 s\n"
            "    rank 1     +2.0 ms  under way\n"
            "    rank 2     +1.0 ms  failed, but DIFFERENT: all_reduce #12 (sum of 999 f32, 3996 bytes), after 30.0 s\n"
            "    rank 4              NOT BEGUN after all_reduce #11 (sum of 1000 f32, 4000 bytes)\n");
}

TEST(FlightComparison, SaysOfAGroupInWhichAllIsWellThatItIs) {
  FlightLog zero = log_of(0);
  FlightLog one = log_of(1);
  for (FlightLog* log : {&zero, &one}) add(*log, sum_of(8, 1), State::done, 1, 2);
  EXPECT_THAT(compare_flight_logs({zero, one}), HasSubstr("group 'world', ranks 0 and 1\n"
                                                          "  all finished  all_reduce #1 (sum of 8 f32, 32 bytes)\n"
                                                          "  and began no other\n"));
}

TEST(FlightComparison, ComparesEachGroupAmongItsOwnRanks) {
  std::vector<FlightLog> logs{log_of(0, 4), log_of(1, 4), log_of(2, 4), log_of(3, 4)};
  for (FlightLog& log : logs) log.groups.push_back(log.rank < 2 ? "world/0:0" : "world/0:1");
  for (FlightLog& log : logs)
    if (log.rank != 3) add(log, sum_of(8, 1), State::done, log.rank, log.rank + 1, 1);
  const std::string text = compare_flight_logs(logs);
  EXPECT_THAT(text, HasSubstr("group 'world', ranks 0-3\n"
                              "  no operation was finished by all\n"
                              "  and began no other\n"));
  EXPECT_THAT(text, HasSubstr("group 'world/0:0', ranks 0 and 1\n"
                              "  all finished  all_reduce #1 (sum of 8 f32, 32 bytes)\n"));
  EXPECT_THAT(text, HasSubstr("group 'world/0:1', ranks 2 and 3\n"
                              "  no operation was finished by all\n"
                              "  then          all_reduce #1 (sum of 8 f32, 32 bytes), from 12:00:00.002000 on\n"
                              "    rank 2     +0.0 us  finished, after 1.0 ms\n"
                              "    rank 3              NOT BEGUN, nor anything before it\n"));
}

TEST(FlightComparison, ShowsADifferenceThatWentUnnoticed) {
  FlightLog zero = log_of(0);
  FlightLog one = log_of(1);
  add(zero, sum_of(8, 1), State::done, 1, 2);
  add(one, sum_of(9, 1), State::done, 1, 2);
  EXPECT_THAT(compare_flight_logs({zero, one}),
              HasSubstr("    rank 1     +0.0 us  finished, but DIFFERENT: all_reduce #1 (sum of 9 f32, 36 bytes), "));
}

TEST(FlightComparison, FoldsManyRanksThatDidTheSame) {
  std::vector<FlightLog> logs;
  for (int rank = 0; rank < 64; ++rank) {
    logs.push_back(log_of(rank, 64));
    add(logs.back(), sum_of(8, 1), State::done, rank, 100);
    if (rank != 7) add(logs.back(), sum_of(8, 2), State::failed, 100 + rank, 200);
  }
  EXPECT_THAT(
      compare_flight_logs(logs),
      HasSubstr("    ranks 0-6 and 8-63  <= 63.0 ms  failed\n"
                "    rank 7                          NOT BEGUN after all_reduce #1 (sum of 8 f32, 32 bytes)\n"));
}

TEST(FlightComparison, EndsWithAFewOperations) {
  FlightLog zero = log_of(0);
  FlightLog one = log_of(1);
  for (uint64_t number = 1; number <= 9; ++number) add(zero, sum_of(8, number), State::done, 1, 2);
  add(one, sum_of(8, 1), State::done, 1, 2);
  const std::string text = compare_flight_logs({zero, one});
  EXPECT_THAT(text, HasSubstr("  then          all_reduce #4 "));
  EXPECT_THAT(text, testing::Not(HasSubstr("all_reduce #5 ")));
  EXPECT_TRUE(text.ends_with("  and so on until #9\n")) << text;
}

TEST(FlightComparison, KnowsThatOldRecordsWereForgotten) {
  FlightLog zero = log_of(0);
  FlightLog one = log_of(1);
  add(zero, sum_of(8, 1), State::done, 1, 2);
  add(one, sum_of(8, 3), State::done, 8, 9);
  EXPECT_THAT(compare_flight_logs({zero, one}),
              HasSubstr("  #2 is no longer in any file\n"
                        "  then          all_reduce #3 (sum of 8 f32, 32 bytes), from 12:00:00.008000 on\n"));
}

TEST(FlightComparison, RefusesFilesThatDoNotBelongTogether) {
  const auto error = [](const std::vector<FlightLog>& logs) -> std::string {
    try {
      compare_flight_logs(logs);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  FlightLog later = log_of(1);
  later.generation = 3;
  EXPECT_EQ(error({}), "there is no flight record to read");
  EXPECT_EQ(error({log_of(1), log_of(1)}), "there are two files of rank 1; give one file for each rank of one run");
  EXPECT_EQ(error({log_of(0), later}),
            "the files are of different runs: rank 0 was one of 2 in generation 0, rank 1 one of 2 in generation 3");
}

}  // namespace
}  // namespace paceline
