// Timeline: what a rank did when, to be looked at in chrome://tracing or ui.perfetto.dev.
//
//   timeline.add({.name = "all-reduce",
//                 .category = "bucket",
//                 .track = "communication",
//                 .begin_ns = begin_ns,
//                 .end_ns = clock.now_ns(),
//                 .arguments = {{"bytes", int64_t{4 << 20}}, {"algorithm", "ring"}}});
//
// Each rank gathers its own; rank 0 gets them all (timeline_bytes.h) and writes one trace.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

namespace paceline {

struct TimelineArgument {
  std::string name;
  std::variant<int64_t, double, std::string> value;

  bool operator==(const TimelineArgument&) const = default;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.name, self.value);
  }
};

// On a track, an event lies within another or beside it: viewers draw one that straddles another's end wrongly.
struct TimelineEvent {
  std::string name;      // "backward"
  std::string category;  // what viewers filter and colour by
  std::string track;     // "compute", "communication"
  int64_t begin_ns = 0;  // steady clock
  int64_t end_ns = 0;
  std::vector<TimelineArgument> arguments;

  bool operator==(const TimelineEvent&) const = default;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.name, self.category, self.track, self.begin_ns, self.end_ns, self.arguments);
  }
};

// Any thread may call anything. add() takes some 150 ns, mostly for the event's strings.
class Timeline {
 public:
  static constexpr size_t kMostEvents = 1 << 16;  // held at once: thousands of steps, some 25 MB

  explicit Timeline(size_t most_events = kMostEvents);

  // When it is full, the event is dropped and counted. An end before the beginning (FastClock may step back by
  // microseconds) becomes the beginning.
  void add(TimelineEvent event);

  std::vector<TimelineEvent> take();  // those since the last take(), in the order in which they were added
  uint64_t dropped() const;           // since the timeline was made

 private:
  const size_t most_events_;
  mutable std::mutex mutex_;
  std::vector<TimelineEvent> events_;  // never grows beyond what it was made for
  uint64_t dropped_ = 0;
};

// A part of a training step, on the track of what computes. Nothing where `timeline` is null.
void note_step_part(Timeline* timeline, const char* what, int64_t begin_ns, int64_t end_ns);

struct RankTimeline {
  int rank = 0;
  std::string host;            // may be empty
  int64_t wall_offset_ns = 0;  // steady clock + this = wall clock, on that host
  std::vector<TimelineEvent> events;
  uint64_t dropped = 0;

  bool operator==(const RankTimeline&) const = default;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.rank, self.host, self.wall_offset_ns, self.events, self.dropped);
  }
};

// This host's, now: the best of several readings, because one may be interrupted between the two clocks.
int64_t measure_wall_offset_ns();

// Trace Event Format: a process per rank, a thread per track, microseconds since the earliest event. Ranks are laid
// side by side by their wall clocks: across hosts that is as exact as those agree (NTP: about a millisecond).
std::string chrome_trace(std::span<const RankTimeline> ranks);

}  // namespace paceline
