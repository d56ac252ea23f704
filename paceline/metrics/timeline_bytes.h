// A rank's timeline as bytes, to be sent to rank 0: about 100 bytes an event.
#pragma once

#include <string>
#include <string_view>

#include "paceline/metrics/timeline.h"

namespace paceline {

std::string to_bytes(const RankTimeline& timeline);

// The inverse. Throws DataError, with the reason, for bytes that are cut off or damaged.
RankTimeline timeline_from(std::string_view bytes);

}  // namespace paceline
