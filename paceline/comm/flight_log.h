// FlightLog: what one rank's flight recorder held when it was written to a file (docs/formats.md, "Flight records").
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "paceline/comm/flight_recorder.h"

namespace paceline {

struct FlightLog {
  int rank = 0;
  int size = 0;
  uint64_t generation = 0;
  std::string engine;
  std::string host;
  std::string failure;                // the error that ended it; empty if there was none
  std::vector<std::string> groups;    // names; 0 is the world
  std::vector<FlightRecord> records;  // oldest first

  bool operator==(const FlightLog&) const = default;
};

std::filesystem::path flight_log_name(int rank);  // flight-rank-3.json

// Whole or not there (core/file.h); throws FileError.
void write_flight_log(const std::filesystem::path& file, const FlightLog& log);

// The flight records in a folder, or the one file that is named. Throws FileError when there are none.
std::vector<std::filesystem::path> find_flight_logs(const std::filesystem::path& file_or_folder);

// Throws FileError, or DataError with file and cause when it is not a flight record that holds together.
FlightLog read_flight_log(const std::filesystem::path& file);

}  // namespace paceline
