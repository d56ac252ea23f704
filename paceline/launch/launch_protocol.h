// What a launcher and its agents on other hosts say to each other: one JSON object per line. docs/launch.md has a
// dialogue. A word that is not UTF-8 (of the command, its folder, the environment) is a list of its bytes, [47, 255];
// bytes of output that are not UTF-8 arrive as U+FFFD.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "paceline/core/error.h"
#include "paceline/launch/host_ranks.h"

namespace paceline {

// ---- from the launcher; each line with its end ----
std::string job_line(const JobOrder& job);  // holds the secret
std::string signal_line(int signal);
std::string end_line();  // no more jobs will come

struct AgentOrder {
  std::optional<JobOrder> job;
  bool end = false;
  int signal = 0;  // where there is neither
};
AgentOrder read_order(std::string_view line);  // Throws PeerError.

// ---- from the agent ----
std::string hello_line();
std::string output_line(int rank, Stream stream, std::string_view line);
std::string ended_line(int rank, const Ending& ending);
std::string error_line(const Error& error);  // and nothing will be started

struct AgentReport {
  enum class Kind : uint8_t { hello, line, ended, error };
  Kind kind;
  int rank = 0;
  Stream stream = Stream::output;
  std::string text;  // the version of a hello, a line, an error
  Ending ending;
  ExitCode code = ExitCode::success;  // of an error
};
// Nothing when it is no such line: the other host's shell may talk, too.
std::optional<AgentReport> read_report(std::string_view line);

// The longest line of either: a piece of output, each byte written as \u0000, or the orders for a large host.
constexpr size_t kLongestProtocolLine = 16 << 20;

}  // namespace paceline
