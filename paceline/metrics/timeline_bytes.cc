#include "paceline/metrics/timeline_bytes.h"

#include <fmt/format.h>

#include <limits>

#include "paceline/core/error.h"
#include "paceline/core/wire.h"

namespace paceline {
namespace {

constexpr int64_t kLatestNs = std::numeric_limits<int64_t>::max() / 3;  // sums and differences of two do not overflow
constexpr int kMostRanks = 1 << 20;

}  // namespace

std::string to_bytes(const RankTimeline& timeline) { return wire_bytes(timeline); }

RankTimeline timeline_from(std::string_view bytes) {
  const auto refuse_if = [](bool wrong, const char* what) {
    if (wrong) throw ProtocolError(what);
  };
  try {
    auto timeline = wire_value<RankTimeline>(bytes);
    refuse_if(timeline.rank < 0 || timeline.rank > kMostRanks, "a rank out of range");
    refuse_if(timeline.wall_offset_ns < -kLatestNs || timeline.wall_offset_ns > kLatestNs, "a time out of range");
    for (const TimelineEvent& event : timeline.events)
      refuse_if(event.begin_ns < 0 || event.end_ns < event.begin_ns || event.end_ns > kLatestNs, "a time out of range");
    return timeline;
  } catch (const ProtocolError& error) {
    throw DataError(fmt::format("the timeline of a rank is damaged: {}", error.what()));
  }
}

}  // namespace paceline
