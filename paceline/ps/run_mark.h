// RunMark: of which run a server's state is, and of which of its histories. It lies beside the state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace paceline {

struct RunMark {
  // What the run means, as lines "key = value". Servers, workers and observers that differ do not belong together.
  std::string settings;
  // Random, of everything that follows from one first state: a server that has lost its state and begins anew has
  // another one, and processes that knew the old state can tell. 0: not known yet.
  uint64_t history = 0;
  uint64_t first_update = 0;  // how many updates the run had at that first state: those of a checkpoint, or 0
};

// The mark of the state in the folder. Where there is no state: a new one, of `settings` and `first_update`, which is
// written. Throws FileError where the state is of other settings, or has no mark; it names the keys that differ.
RunMark take_run_mark(const std::filesystem::path& state_folder, int shard, const std::string& settings,
                      uint64_t first_update);

// Keys that begin like this describe the data; the others are the recipe's.
inline constexpr std::string_view kDataSettings = "training samples";

// The keys whose lines differ, for people: "optimizer.rate (0.1 here, 0.5 there)". Empty: none.
std::string settings_difference(const std::string& here, const std::string& there);

// Whether a difference that settings_difference() has returned is one of the data alone.
bool is_of_the_data(const std::string& difference);

}  // namespace paceline
