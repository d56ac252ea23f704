#include "paceline/metrics/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

namespace paceline {
namespace {

using nlohmann::json;
using testing::ElementsAre;

TimelineEvent event(std::string name, std::string track, int64_t begin_ns, int64_t end_ns) {
  return {
      .name = std::move(name), .category = "step", .track = std::move(track), .begin_ns = begin_ns, .end_ns = end_ns};
}

json trace_of(const std::vector<RankTimeline>& ranks) { return json::parse(chrome_trace(ranks))["traceEvents"]; }

std::vector<json> of_phase(const json& trace, const std::string& phase) {
  std::vector<json> lines;
  for (const json& line : trace)
    if (line["ph"] == phase) lines.push_back(line);
  return lines;
}

std::vector<json> metadata(const json& trace, const std::string& name) {
  std::vector<json> lines;
  for (const json& line : of_phase(trace, "M"))
    if (line["name"] == name) lines.push_back(line);
  return lines;
}

TEST(Timeline, GivesWhatWasAddedOnceAndInThatOrder) {
  Timeline timeline;
  timeline.add(event("forward", "compute", 10, 20));
  timeline.add(event("bucket", "communication", 5, 30));
  EXPECT_THAT(timeline.take(),
              ElementsAre(event("forward", "compute", 10, 20), event("bucket", "communication", 5, 30)));
  EXPECT_THAT(timeline.take(), ElementsAre());
  timeline.add(event("backward", "compute", 30, 40));
  EXPECT_THAT(timeline.take(), ElementsAre(event("backward", "compute", 30, 40)));
}

TEST(Timeline, CountsWhatItHasNoRoomFor) {
  Timeline timeline(/*most_events=*/2);
  for (int64_t i = 0; i < 5; ++i) timeline.add(event("step", "compute", i, i + 1));
  EXPECT_EQ(timeline.dropped(), 3u);
  EXPECT_THAT(timeline.take(), ElementsAre(event("step", "compute", 0, 1), event("step", "compute", 1, 2)));
  timeline.add(event("step", "compute", 5, 6));  // there is room again
  EXPECT_THAT(timeline.take(), ElementsAre(event("step", "compute", 5, 6)));
  EXPECT_EQ(timeline.dropped(), 3u);
}

TEST(Timeline, AnEventThatEndsBeforeItBeginsTakesNoTime) {
  Timeline timeline;
  timeline.add(event("step", "compute", 100, 98));
  EXPECT_THAT(timeline.take(), ElementsAre(event("step", "compute", 100, 100)));
}

TEST(Timeline, LosesNothingWhenSeveralThreadsAddAndOneTakes) {
  constexpr int kThreads = 4, kEach = 500;
  Timeline timeline;
  std::vector<TimelineEvent> taken;
  const auto take = [&] { std::ranges::move(timeline.take(), std::back_inserter(taken)); };
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&timeline, thread] {
        for (int i = 0; i < kEach; ++i) timeline.add(event("step", "compute", thread * kEach + i, thread * kEach + i));
      });
    }
    for (int i = 0; i < 20; ++i) take();
  }
  take();
  std::set<int64_t> begun;
  for (const TimelineEvent& each : taken) begun.insert(each.begin_ns);
  EXPECT_EQ(taken.size(), size_t{kThreads * kEach});
  EXPECT_EQ(begun.size(), taken.size());
  EXPECT_EQ(timeline.dropped(), 0u);
}

TEST(WallOffset, LeadsFromTheSteadyClockToTheWallClock) {
  using std::chrono::nanoseconds;
  const int64_t before_ns = nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  const int64_t steady_ns = nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(static_cast<double>(steady_ns + measure_wall_offset_ns() - before_ns), 0, 1e9);
}

TEST(ChromeTrace, TellsNameCategoryTimesAndArguments) {
  TimelineEvent bucket = event("all-reduce", "communication", 5'000'001'500, 5'000'004'000);
  bucket.category = "bucket";
  bucket.arguments = {{"bytes", int64_t{1} << 40}, {"algorithm", "ring \"a\""}, {"share", 0.25}};
  const auto events = of_phase(
      trace_of({{.rank = 3, .events = {event("forward", "compute", 5'000'000'000, 5'000'002'001), bucket}}}), "X");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0], (json{{"ph", "X"},
                             {"name", "forward"},
                             {"cat", "step"},
                             {"pid", 3},
                             {"tid", 1},
                             {"ts", 0.0},
                             {"dur", 2.001},
                             {"args", json::object()}}));
  EXPECT_EQ(events[1], (json{{"ph", "X"},
                             {"name", "all-reduce"},
                             {"cat", "bucket"},
                             {"pid", 3},
                             {"tid", 2},
                             {"ts", 1.5},
                             {"dur", 2.5},
                             {"args", {{"bytes", 1ll << 40}, {"algorithm", "ring \"a\""}, {"share", 0.25}}}}));
}

TEST(ChromeTrace, NamesRanksAndTracks) {
  const json trace = trace_of({{.rank = 0, .host = "node1", .events = {event("update", "compute", 1, 2)}},
                               {.rank = 1, .events = {event("bucket", "communication", 2, 3)}}});
  const auto processes = metadata(trace, "process_name");
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0]["args"]["name"], "rank 0 (node1)");
  EXPECT_EQ(processes[1]["args"]["name"], "rank 1");
  EXPECT_EQ(processes[1]["pid"], 1);

  std::set<std::tuple<int, int, std::string>> threads;
  for (const json& line : metadata(trace, "thread_name"))
    threads.emplace(line["pid"], line["tid"], line["args"]["name"]);
  EXPECT_EQ(threads, (std::set<std::tuple<int, int, std::string>>{
                         {0, 1, "compute"}, {0, 2, "communication"}, {1, 1, "compute"}, {1, 2, "communication"}}));
}

TEST(ChromeTrace, TheTrackThatBeginsFirstStandsFirst) {
  const auto events =
      of_phase(trace_of({{.rank = 0, .events = {event("bucket", "a", 50, 60), event("forward", "b", 10, 40)}}}), "X");
  EXPECT_EQ(events[0]["name"], "forward");
  EXPECT_EQ(events[0]["tid"], 1);
  EXPECT_EQ(events[1]["tid"], 2);
}

TEST(ChromeTrace, AnEventStandsBeforeThoseWithinIt) {
  const auto events = of_phase(
      trace_of({{.rank = 0,
                 .events = {event("encode", "b", 10, 15), event("send", "b", 15, 40), event("bucket", "b", 10, 40)}}}),
      "X");
  EXPECT_EQ(events[0]["name"], "bucket");
  EXPECT_EQ(events[1]["name"], "encode");
  EXPECT_EQ(events[2]["name"], "send");
}

// Two hosts that were started days apart: their steady clocks have nothing in common.
TEST(ChromeTrace, LaysRanksOfSeveralHostsSideBySideByTheWallClock) {
  constexpr int64_t kWallNs = 1'700'000'000'000'000'000, kDayNs = 86'400'000'000'000;
  const std::vector<RankTimeline> ranks = {
      {.rank = 0,
       .host = "old",
       .wall_offset_ns = kWallNs - 30 * kDayNs,
       .events = {event("step", "compute", 30 * kDayNs + 2'000, 30 * kDayNs + 7'000)}},
      {.rank = 1,
       .host = "new",
       .wall_offset_ns = kWallNs - 1'000,
       .events = {event("step", "compute", 1'500, 4'500)}}};
  const auto events = of_phase(trace_of(ranks), "X");
  EXPECT_EQ(events[0]["ts"], 1.5);  // the other began 1.5 µs earlier
  EXPECT_EQ(events[0]["dur"], 5.0);
  EXPECT_EQ(events[1]["ts"], 0.0);
  EXPECT_EQ(events[1]["dur"], 3.0);
}

TEST(ChromeTrace, SaysHowManyEventsAreMissing) {
  const json trace = trace_of({{.rank = 0, .dropped = 12'345}, {.rank = 1}});
  const auto labels = metadata(trace, "process_labels");
  ASSERT_EQ(labels.size(), 1u);
  EXPECT_EQ(labels[0]["pid"], 0);
  EXPECT_EQ(labels[0]["args"]["labels"], "12,345 events dropped");
}

TEST(ChromeTrace, IsJsonWhateverItIsGiven) {
  EXPECT_EQ(trace_of({}), json::array());
  TimelineEvent odd = event("\xff\n", "", 0, 0);
  odd.arguments = {{"rate", std::numeric_limits<double>::quiet_NaN()}};
  const auto events = of_phase(trace_of({{.rank = 0, .host = "\xc3", .events = {odd}}}), "X");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["args"]["rate"], nullptr);
}

}  // namespace
}  // namespace paceline
