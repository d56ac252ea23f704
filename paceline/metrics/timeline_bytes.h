// A rank's timeline as bytes, to be sent to rank 0: texts once each, times as differences; about 20 bytes an event.
#pragma once

#include <string>
#include <string_view>

#include "paceline/metrics/timeline.h"

namespace paceline {

std::string to_bytes(const RankTimeline& timeline);

// The inverse. Throws DataError, which says where, for bytes that are cut off or damaged.
RankTimeline timeline_from(std::string_view bytes);

}  // namespace paceline
