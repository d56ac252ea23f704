#include "paceline/sync/asp.h"

namespace paceline {

AspPolicy::AspPolicy(const SyncSettings& settings) : SspPolicy("asp", settings, std::nullopt) {}

}  // namespace paceline
