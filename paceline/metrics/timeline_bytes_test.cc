#include "paceline/metrics/timeline_bytes.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/core/error.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

RankTimeline example() {
  return {.rank = 3,
          .host = "node2",
          .wall_offset_ns = 1'700'000'000'123'456'789,
          .events = {{.name = "all-reduce",
                      .category = "bucket",
                      .track = "communication",
                      .begin_ns = 86'400'000'000'007,
                      .end_ns = 86'400'000'300'000,
                      .arguments = {{"bytes", std::numeric_limits<int64_t>::max()},
                                    {"lost", int64_t{-1}},
                                    {"least", std::numeric_limits<int64_t>::min()},
                                    {"share", -0.1},
                                    {"algorithm", "ring"}}},
                     {.name = "", .category = "", .track = "", .begin_ns = 5, .end_ns = 5}},  // began earlier
          .dropped = std::numeric_limits<uint64_t>::max()};
}

// A window of steps as a run has it: forward, backward and buckets of several sizes.
RankTimeline window(int steps) {
  RankTimeline timeline{.rank = 0, .host = "node1", .wall_offset_ns = 1'700'000'000'000'000'000};
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t from_ns = 1'000'000'000'000 + step * 90'000'000;
    timeline.events.push_back({"forward", "step", "compute", from_ns, from_ns + 30'000'000, {}});
    timeline.events.push_back({"backward", "step", "compute", from_ns + 30'000'000, from_ns + 88'000'000, {}});
    for (int64_t bucket = 0; bucket < 4; ++bucket) {
      const int64_t bucket_ns = from_ns + 45'000'000 + bucket * 9'000'000;
      timeline.events.push_back({"all-reduce",
                                 "bucket",
                                 "communication",
                                 bucket_ns,
                                 bucket_ns + 8'000'000,
                                 {{"bucket", bucket}, {"bytes", 4 << 20}, {"algorithm", "halving_doubling"}}});
    }
  }
  return timeline;
}

TEST(TimelineBytes, ComeBackAsTheyWere) {
  for (const RankTimeline& timeline : {RankTimeline{}, example(), window(100)})
    EXPECT_EQ(timeline_from(to_bytes(timeline)), timeline);
}

TEST(TimelineBytes, AreFew) {
  const RankTimeline timeline = window(100);
  EXPECT_LT(to_bytes(timeline).size(), 110 * timeline.events.size());
}

TEST(TimelineBytes, CutOffAnywhereAreRefused) {
  const std::string bytes = to_bytes(example());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(timeline_from(std::string_view(bytes).substr(0, size)), DataError) << size;
  EXPECT_THROW(timeline_from(bytes + '\0'), DataError);
}

TEST(TimelineBytes, OfSomethingElseAreRefusedWithTheReason) {
  try {
    timeline_from("{\"traceEvents\": []}");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the timeline of a rank is damaged: a message that ends in the middle");
  }
}

// Each change is either refused or gives another timeline whose times can be added to and taken from each other; never
// more memory than the bytes account for.
TEST(TimelineBytes, DamagedOnesDoNoHarm) {
  const std::string bytes = to_bytes(example());
  const RandomKey key(1);
  int refused = 0;
  for (uint64_t trial = 0; trial < 3000; ++trial) {
    std::string damaged = bytes;
    for (uint64_t change = 0; change <= trial % 3; ++change)
      damaged[key.with(trial).below(2 * change, bytes.size())] =
          static_cast<char>(key.with(trial).below(2 * change + 1, 256));
    try {
      const RankTimeline timeline = timeline_from(damaged);
      EXPECT_FALSE(chrome_trace(std::span(&timeline, 1)).empty());
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(refused, 3000);
}

}  // namespace
}  // namespace paceline
