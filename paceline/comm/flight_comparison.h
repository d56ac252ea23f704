// What several ranks' flight records say together: per group the last operation that all finished, then who did what
// instead. For people: `paceline flight FILE...` prints it.
#pragma once

#include <string>
#include <vector>

#include "paceline/comm/flight_log.h"

namespace paceline {

// One log alone: its last operations. Throws UsageError when two logs are of the same rank, or of different runs.
std::string compare_flight_logs(std::vector<FlightLog> logs);

}  // namespace paceline
