// What a run's environment says of waiting and of flight records.
#pragma once

#include <cstdint>
#include <filesystem>

#include "paceline/rendezvous/identity.h"

namespace paceline {

inline constexpr int64_t kDefaultTimeoutMs = 60'000;
// Some 31 years. Every longer time-out, as "inf", means this one, so that sums of times stay far from overflow.
inline constexpr int64_t kLongestTimeoutMs = 1'000'000'000'000;

// `asked_ms`, or where that is 0 PACELINE_TIMEOUT (seconds), or else the default. Throws UsageError.
int64_t wait_timeout_ms(int64_t asked_ms, const Environment& environment);

struct FlightFolder {
  std::filesystem::path path;
  bool chosen = false;  // by the user, who answers for who may write there; otherwise it must be a private folder
};
// `asked`, or where that is empty PACELINE_FLIGHT_DIR, or else "paceline-flight-JOB" in XDG_RUNTIME_DIR (where that is
// this user's own) or in /tmp.
FlightFolder flight_folder(const std::filesystem::path& asked, const Environment& environment, const std::string& job);

// Makes it. Throws FileError: it cannot be made, or another user could have put links there.
void make_flight_folder(const FlightFolder& folder);

}  // namespace paceline
