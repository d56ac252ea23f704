#include "paceline/comm/flight_recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace paceline {
namespace {

using State = FlightRecord::State;

Operation numbered(uint64_t number) { return {Verb::all_reduce, DType::f32, ReduceOp::sum, -1, 3 * number, number}; }

TEST(FlightRecorder, IsEmptyAtFirst) {
  const FlightRecorder recorder;
  EXPECT_TRUE(recorder.records().empty());
  EXPECT_TRUE(recorder.groups().empty());
}

TEST(FlightRecorder, KeepsWhatBeganAndHowItEnded) {
  FlightRecorder recorder;
  const uint32_t world = recorder.add_group("world");
  const uint32_t row = recorder.add_group("world/0:1");
  const uint64_t first = recorder.begin(world, numbered(1), 1000);
  const uint64_t second = recorder.begin(row, numbered(2), 1100);
  recorder.begin(world, numbered(3), 1200);
  recorder.end(second, State::failed, 1500);
  recorder.end(first, State::done, 1250);

  const std::vector<FlightRecord> records = recorder.records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].state, State::done);
  EXPECT_EQ(records[0].group, world);
  EXPECT_EQ(records[0].operation, numbered(1));
  EXPECT_EQ(records[0].end_ns - records[0].begin_ns, 250);
  EXPECT_EQ(records[1].state, State::failed);
  EXPECT_EQ(records[1].group, row);
  EXPECT_EQ(records[1].begin_ns - records[0].begin_ns, 100);
  EXPECT_EQ(records[2].state, State::under_way);
  EXPECT_EQ(records[2].end_ns, 0);
  EXPECT_EQ(records[2].number, 2u);
}

TEST(FlightRecorder, TellsTimesByTheWallClock) {
  const auto ns = [](auto moment) { return std::chrono::nanoseconds(moment.time_since_epoch()).count(); };
  FlightRecorder recorder;
  const int64_t before_ns = ns(std::chrono::system_clock::now());
  recorder.begin(0, numbered(1), ns(std::chrono::steady_clock::now()));
  EXPECT_NEAR(static_cast<double>(recorder.records().front().begin_ns - before_ns), 0, 1e9);
}

TEST(FlightRecorder, GivesTheSameIndexForTheSameName) {
  FlightRecorder recorder;
  EXPECT_EQ(recorder.add_group("world"), 0u);
  EXPECT_EQ(recorder.add_group("row"), 1u);
  EXPECT_EQ(recorder.add_group("world"), 0u);
  EXPECT_EQ(recorder.groups(), (std::vector<std::string>{"world", "row"}));
}

TEST(FlightRecorder, ForgetsTheOldestAndIgnoresTheirEnd) {
  FlightRecorder recorder;
  const uint64_t forgotten = recorder.begin(0, numbered(1), 1);
  for (uint64_t number = 2; number <= FlightRecorder::kRecords + 1; ++number)
    recorder.end(recorder.begin(0, numbered(number), 1), State::done, 2);
  recorder.end(forgotten, State::failed, 3);
  const std::vector<FlightRecord> records = recorder.records();
  ASSERT_EQ(records.size(), FlightRecorder::kRecords);
  for (size_t index = 0; index < records.size(); ++index) {
    EXPECT_EQ(records[index].operation, numbered(index + 2));
    EXPECT_EQ(records[index].state, State::done);
  }
}

// Each field of a record is a function of its sequence number: a mixture of two would show.
TEST(FlightRecorder, IsReadWhileThreadsWrite) {
  FlightRecorder recorder;
  std::atomic<int> writing{2};
  const auto write = [&](uint64_t first) {
    for (uint64_t number = first; number < first + 10'000; ++number)
      recorder.end(recorder.begin(static_cast<uint32_t>(number % 7), numbered(number), static_cast<int64_t>(number)),
                   State::done, static_cast<int64_t>(3 * number));
    --writing;
  };
  std::thread one(write, 1);
  std::thread two(write, 1'000'001);
  int mixtures = 0;
  while (writing.load() > 0) {
    for (const FlightRecord& record : recorder.records()) {
      const uint64_t number = record.operation.sequence;
      const bool ended = record.state == State::done;
      if (record.operation != numbered(number) || record.group != number % 7 ||
          (ended && record.end_ns - record.begin_ns != static_cast<int64_t>(2 * number)) ||
          (!ended && record.end_ns != 0))
        ++mixtures;
    }
  }
  one.join();
  two.join();
  EXPECT_EQ(mixtures, 0);
  EXPECT_EQ(recorder.records().size(), FlightRecorder::kRecords);
}

}  // namespace
}  // namespace paceline
