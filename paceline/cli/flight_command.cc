#include "paceline/cli/flight_command.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/comm/flight_comparison.h"

namespace paceline {
namespace {

void print_flight(const std::vector<std::string>& places) {
  std::vector<FlightLog> logs;
  for (const std::string& place : places)
    for (const auto& file : find_flight_logs(place)) logs.push_back(read_flight_log(file));
  fmt::print("{}", compare_flight_logs(std::move(logs)));
}

}  // namespace

void add_flight_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("flight", "Read and compare what ranks wrote when communication failed");
  const auto places = std::make_shared<std::vector<std::string>>();
  command->add_option("FILE", *places, "Flight records (flight-rank-N.json) of one run, or a folder of them")
      ->required();
  command->footer(
      "Examples:\n"
      "  paceline flight /tmp/paceline-flight-JOB\n"
      "  paceline flight flight-rank-0.json flight-rank-1.json\n"
      "The message of a failed run names the folder.");
  command->callback([places] { print_flight(*places); });
}

}  // namespace paceline
