// The stored profile of a cluster that is only described: for predictions without starting a rank.
#pragma once

#include <optional>

#include "paceline/collectives/cost_model.h"
#include "paceline/collectives/explain.h"
#include "paceline/collectives/profile.h"

namespace paceline {

// The one for the cluster's engine (its name), layout and grid, measured by this version; on a single host, by this
// host. Nothing where hosts have different numbers of ranks: who is where is not known then.
std::optional<Profile> stored_profile(const Cluster& cluster, Grid grid, const std::filesystem::path& folder,
                                      const Warn& warn);

// f32 at this size, by algorithm; none beyond the measured sizes.
Measured measured_times(const Profile& profile, uint64_t bytes);

}  // namespace paceline
