#include "paceline/comm/flight_recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace paceline {
namespace {

using State = FlightRecord::State;

Operation numbered(uint64_t number) { return {Verb::all_reduce, DType::f32, ReduceOp::sum, -1, 3 * number, number}; }

TEST(FlightRecorder, IsEmptyAtFirst) {
  FlightRecorder recorder;
  EXPECT_TRUE(recorder.groups().empty());
  const auto world = recorder.add_group("world");
  EXPECT_TRUE(recorder.records().empty());
}

TEST(FlightRecorder, KeepsWhatBeganAndHowItEnded) {
  FlightRecorder recorder;
  const auto world = recorder.add_group("world");
  const auto row = recorder.add_group("world/0:1");
  world->begin(numbered(1), 1000);
  row->begin(numbered(2), 1100);
  world->end(State::done, 1250);
  world->begin(numbered(3), 1300);
  row->end(State::failed, 1500);

  const std::vector<FlightRecord> records = recorder.records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].state, State::done);
  EXPECT_EQ(records[0].group, 0u);
  EXPECT_EQ(records[0].operation, numbered(1));
  EXPECT_EQ(records[0].end_ns - records[0].begin_ns, 250);
  EXPECT_EQ(records[1].state, State::failed);
  EXPECT_EQ(records[1].group, 1u);
  EXPECT_EQ(records[1].begin_ns - records[0].begin_ns, 100);
  EXPECT_EQ(records[1].end_ns - records[1].begin_ns, 400);
  EXPECT_EQ(records[2].state, State::under_way);
  EXPECT_EQ(records[2].operation, numbered(3));
  EXPECT_EQ(records[2].end_ns, 0);
}

TEST(FlightRecorder, KnowsThatAnOperationIsDoneWithoutItsTime) {
  FlightRecorder recorder;
  const auto world = recorder.add_group("world");
  world->begin(numbered(1), 1000);
  world->end_untimed();
  world->begin(numbered(2), 2000);

  const std::vector<FlightRecord> records = recorder.records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].state, State::done);
  EXPECT_FALSE(records[0].timed());
  EXPECT_EQ(records[1].state, State::under_way);
}

TEST(FlightRecorder, TellsTimesByTheWallClock) {
  const auto ns = [](auto moment) { return std::chrono::nanoseconds(moment.time_since_epoch()).count(); };
  FlightRecorder recorder;
  const auto world = recorder.add_group("world");
  const int64_t before_ns = ns(std::chrono::system_clock::now());
  world->begin(numbered(1), ns(std::chrono::steady_clock::now()));
  EXPECT_NEAR(static_cast<double>(recorder.records().front().begin_ns - before_ns), 0, 1e9);
}

TEST(FlightRecorder, GoesOnInTheLaneOfAGroupThatIsGone) {
  FlightRecorder recorder;
  auto world = recorder.add_group("world");
  const auto row = recorder.add_group("row");
  const auto namesake = recorder.add_group("world");
  EXPECT_NE(world, namesake);  // both write
  EXPECT_EQ(world->group(), namesake->group());
  EXPECT_EQ(recorder.groups(), (std::vector<std::string>{"world", "row"}));
  const FlightLane* const first = world.get();
  world.reset();
  EXPECT_EQ(recorder.add_group("world").get(), first);
}

TEST(FlightRecorder, ForgetsTheOldest) {
  FlightRecorder recorder;
  const auto world = recorder.add_group("world");
  for (uint64_t number = 1; number <= FlightLane::kRecords + 1; ++number) {
    world->begin(numbered(number), static_cast<int64_t>(number));
    world->end(State::done, static_cast<int64_t>(number) + 1);
  }
  const std::vector<FlightRecord> records = recorder.records();
  ASSERT_EQ(records.size(), FlightLane::kRecords);
  for (size_t index = 0; index < records.size(); ++index) {
    EXPECT_EQ(records[index].operation, numbered(index + 2));
    EXPECT_EQ(records[index].state, State::done);
  }
}

// Each field of a record is a function of its sequence number: a mixture of two would show.
TEST(FlightRecorder, IsReadWhileThreadsWrite) {
  FlightRecorder recorder;
  std::atomic<int> writing{2};
  const auto write = [&](FlightLane& lane, uint64_t first) {
    for (uint64_t number = first; number < first + 10'000; ++number) {
      lane.begin(numbered(number), static_cast<int64_t>(number));
      lane.end(State::done, static_cast<int64_t>(3 * number));
    }
    --writing;
  };
  const auto world = recorder.add_group("world");
  const auto row = recorder.add_group("row");
  std::thread one([&] { write(*world, 1); });
  std::thread two([&] { write(*row, 1'000'001); });
  int mixtures = 0;
  while (writing.load() > 0) {
    for (const FlightRecord& record : recorder.records()) {
      const uint64_t number = record.operation.sequence;
      const bool ended = record.state == State::done;
      if (record.operation != numbered(number) || (record.group == 1) != (number > 1'000'000) ||
          (ended && record.end_ns - record.begin_ns != static_cast<int64_t>(2 * number)) ||
          (!ended && record.end_ns != 0))
        ++mixtures;
    }
  }
  one.join();
  two.join();
  EXPECT_EQ(mixtures, 0);
  EXPECT_EQ(recorder.records().size(), 2 * FlightLane::kRecords);
}

}  // namespace
}  // namespace paceline
