// What lies in a server's state folder, by name.
#pragma once

#include <fmt/format.h>

#include <string>

namespace paceline {

inline std::string shard_file_name(int shard) { return fmt::format("shard-{}", shard); }
inline std::string run_mark_name(int shard) { return fmt::format("run-{}", shard); }
inline constexpr const char* kJournalFolder = "coordinator";
inline constexpr const char* kNormsFile = "norms";
inline constexpr const char* kStatisticsFolder = "statistics";
inline constexpr const char* kObserversFolder = "observers";

}  // namespace paceline
