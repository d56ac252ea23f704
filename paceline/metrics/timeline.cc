#include "paceline/metrics/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "paceline/core/number_text.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

// A host name may hold bytes that are no UTF-8. What is not finite becomes null.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json metadata(const char* what, int rank, Json arguments, int track = 0) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", track}, {"args", std::move(arguments)}};
}

std::vector<Json> metadata_of(const RankTimeline& timeline, const std::map<std::string_view, int>& tracks) {
  const int rank = timeline.rank;
  const std::string host = timeline.host.empty() ? "" : fmt::format(" ({})", timeline.host);
  std::vector<Json> lines = {metadata("process_name", rank, {{"name", fmt::format("rank {}{}", rank, host)}}),
                             metadata("process_sort_index", rank, {{"sort_index", rank}})};
  if (timeline.dropped > 0) {
    const std::string label = fmt::format("{} events dropped", with_commas(timeline.dropped));
    lines.push_back(metadata("process_labels", rank, {{"labels", label}}));
  }
  for (const auto& [track, number] : tracks) {
    lines.push_back(metadata("thread_name", rank, {{"name", track}}, number));
    lines.push_back(metadata("thread_sort_index", rank, {{"sort_index", number}}, number));
  }
  return lines;
}

Json to_json(const TimelineEvent& event, int rank, int track, int64_t since_ns) {
  Json arguments = Json::object();
  for (const TimelineArgument& argument : event.arguments)
    std::visit([&](const auto& value) { arguments[argument.name] = value; }, argument.value);
  return {{"ph", "X"},
          {"name", event.name},
          {"cat", event.category},
          {"pid", rank},
          {"tid", track},
          {"ts", static_cast<double>(event.begin_ns - since_ns) / 1e3},
          {"dur", static_cast<double>(event.end_ns - event.begin_ns) / 1e3},
          {"args", std::move(arguments)}};
}

// Begun first, first; of those that begin together, the one around the other.
std::vector<const TimelineEvent*> in_order(const std::vector<TimelineEvent>& events) {
  std::vector<const TimelineEvent*> order;
  order.reserve(events.size());
  for (const TimelineEvent& event : events) order.push_back(&event);
  std::ranges::stable_sort(order, [](const TimelineEvent* one, const TimelineEvent* other) {
    return one->begin_ns != other->begin_ns ? one->begin_ns < other->begin_ns : one->end_ns > other->end_ns;
  });
  return order;
}

// Tracks by when each first began on any rank, numbered from 1: the same one has the same number on every rank.
std::map<std::string_view, int> number_tracks(std::span<const RankTimeline> ranks) {
  std::map<std::string_view, int64_t> begun;
  for (const RankTimeline& rank : ranks) {
    for (const TimelineEvent& event : rank.events) {
      const int64_t wall_ns = event.begin_ns + rank.wall_offset_ns;
      const auto found = begun.try_emplace(event.track, wall_ns).first;
      found->second = std::min(found->second, wall_ns);
    }
  }
  std::vector<std::pair<int64_t, std::string_view>> order;
  for (const auto& [track, wall_ns] : begun) order.emplace_back(wall_ns, track);
  std::ranges::sort(order);
  std::map<std::string_view, int> numbers;
  for (const auto& [wall_ns, track] : order) numbers.emplace(track, static_cast<int>(numbers.size()) + 1);
  return numbers;
}

}  // namespace

Timeline::Timeline(size_t most_events) : most_events_(most_events) { events_.reserve(most_events_); }

void Timeline::add(TimelineEvent event) {
  event.end_ns = std::max(event.begin_ns, event.end_ns);
  const std::lock_guard lock(mutex_);
  if (events_.size() < most_events_) {
    events_.push_back(std::move(event));
  } else {
    ++dropped_;
  }
}

void note_step_part(Timeline* timeline, const char* what, int64_t begin_ns, int64_t end_ns) {
  if (timeline)
    timeline->add({.name = what,
                   .category = "step",
                   .track = "compute",
                   .begin_ns = begin_ns,
                   .end_ns = end_ns,
                   .arguments = {}});
}

std::vector<TimelineEvent> Timeline::take() {
  std::vector<TimelineEvent> taken;
  taken.reserve(most_events_);  // before the lock: add() waits for a swap at most
  const std::lock_guard lock(mutex_);
  taken.swap(events_);
  return taken;
}

uint64_t Timeline::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

int64_t measure_wall_offset_ns() {
  const auto in_ns = [](auto time) {
    return int64_t{std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count()};
  };
  int64_t offset_ns = 0, least_doubt_ns = std::numeric_limits<int64_t>::max();
  for (int reading = 0; reading < 5; ++reading) {
    const int64_t before_ns = in_ns(std::chrono::steady_clock::now());
    const int64_t wall_ns = in_ns(std::chrono::system_clock::now());
    const int64_t doubt_ns = in_ns(std::chrono::steady_clock::now()) - before_ns;
    if (doubt_ns >= least_doubt_ns) continue;
    least_doubt_ns = doubt_ns;
    offset_ns = wall_ns - (before_ns + doubt_ns / 2);
  }
  return offset_ns;
}

std::string chrome_trace(std::span<const RankTimeline> ranks) {
  const std::map<std::string_view, int> tracks = number_tracks(ranks);
  int64_t earliest_wall_ns = std::numeric_limits<int64_t>::max();
  for (const RankTimeline& rank : ranks)
    for (const TimelineEvent& event : rank.events)
      earliest_wall_ns = std::min(earliest_wall_ns, event.begin_ns + rank.wall_offset_ns);

  // A line an event: a trace of many ranks is large, and its tree of JSON would be larger.
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char* before = "\n";
  const auto append = [&](const Json& line) {
    text.append(before).append(dump(line));
    before = ",\n";
  };
  for (const RankTimeline& rank : ranks) {
    for (const Json& line : metadata_of(rank, tracks)) append(line);
    for (const TimelineEvent* event : in_order(rank.events))
      append(to_json(*event, rank.rank, tracks.at(event->track), earliest_wall_ns - rank.wall_offset_ns));
  }
  return text + "\n]}\n";
}

}  // namespace paceline
