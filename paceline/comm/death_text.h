// What is told of a rank that is gone.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace paceline {

// What is known of a rank whose connection was closed.
inline constexpr std::string_view kConnectionClosed = "its process is gone (connection closed)";
// What is known of a rank whose connection timed out. It may be alive.
inline constexpr std::string_view kConnectionLost = "the network to its host is cut, or that host is down";

// "rank 3 died (killed by signal 9)", or "no connection to rank 3 any more (...)".
inline std::string death_text(const std::string& ranks, const std::string& how) {
  if (how == kConnectionLost) return fmt::format("no connection to {} any more ({})", ranks, how);
  return how.empty() ? fmt::format("{} died", ranks) : fmt::format("{} died ({})", ranks, how);
}

}  // namespace paceline
