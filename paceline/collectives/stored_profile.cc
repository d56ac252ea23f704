#include "paceline/collectives/stored_profile.h"

#include <fmt/format.h>

#include "paceline/core/version.h"

namespace paceline {

std::optional<Profile> stored_profile(const Cluster& cluster, Grid grid, const std::filesystem::path& folder,
                                      const Warn& warn) {
  if (!cluster.hosts_are_equal()) return std::nullopt;
  const std::string layout = fmt::format("{}x{}", cluster.ranks_per_host, cluster.hosts);
  return load_profile(
      folder / profile_name(cluster.name, layout),
      [&](const Fingerprint& found) {
        const bool here = cluster.hosts > 1 || found.hosts == std::vector<std::string>{hardware_text()};
        return here && found.version == kVersion && found.engine == cluster.name && found.layout == layout &&
               found.grid == to_text(grid);
      },
      warn);
}

Measured measured_times(const Profile& profile, uint64_t bytes) {
  Measured times;
  if (!within_measured_sizes(profile, DType::f32, bytes)) return times;
  const auto no_model = [](double) { return 0.0; };  // not asked for between measured sizes
  for (const ProfileRow& row : profile.rows)
    if (const auto seconds = measured_seconds(profile, row.algorithm, DType::f32, bytes, no_model))
      times[row.algorithm] = *seconds;
  return times;
}

}  // namespace paceline
