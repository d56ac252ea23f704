#include "paceline/ps/run_mark.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/hmac.h"
#include "paceline/ps/server.h"
#include "paceline/ps/state_names.h"

namespace paceline {
namespace {

constexpr std::string_view kHistory = "history ", kFirstUpdate = "first_update ", kSettings = "settings\n";
constexpr size_t kMostKeysNamed = 4;
constexpr size_t kMostOfAValue = 40;

std::map<std::string, std::string> values_of(std::string_view lines) {
  std::map<std::string, std::string> values;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const size_t sign = line.find(" = ");
    if (sign != std::string_view::npos) values[std::string(line.substr(0, sign))] = line.substr(sign + 3);
  }
  return values;
}

std::string to_text(const RunMark& mark) {
  return fmt::format("{}{:x}\n{}{:x}\n{}{}", kHistory, mark.history, kFirstUpdate, mark.first_update, kSettings,
                     mark.settings);
}

// Reads "NAME HEX\n" from the beginning of `rest`.
bool take_number(std::string_view& rest, std::string_view name, uint64_t& value) {
  if (!rest.starts_with(name)) return false;
  rest.remove_prefix(name.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, 16);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != '\n') return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()) + 1);
  return true;
}

RunMark mark_from(std::string_view text, const std::filesystem::path& file) {
  RunMark mark;
  if (!take_number(text, kHistory, mark.history) || !take_number(text, kFirstUpdate, mark.first_update) ||
      !text.starts_with(kSettings) || mark.history == 0)
    throw FileError(
        fmt::format("{}: this does not say of which run the state beside it is; 'paceline serve --fresh' "
                    "removes that state and begins anew",
                    file.string()));
  mark.settings = text.substr(kSettings.size());
  return mark;
}

}  // namespace

RunMark take_run_mark(const std::filesystem::path& state_folder, int shard, const std::string& settings,
                      uint64_t first_update) {
  const std::filesystem::path file = state_folder / run_mark_name(shard);
  if (has_state(state_folder, shard)) {
    RunMark mark = mark_from(read_file(file), file);
    const std::string difference = settings_difference(settings, mark.settings);
    if (difference.empty()) return mark;
    const bool of_data = is_of_the_data(difference);
    throw FileError(fmt::format("the state in {} is of {}: {}; {}, or begin anew with 'paceline serve --fresh'",
                                state_folder.string(), of_data ? "other training data" : "another recipe", difference,
                                of_data ? "give the data as they were" : "give the recipe as it was"));
  }
  RunMark mark = {.settings = settings, .first_update = first_update};
  while (mark.history == 0) mark.history = std::stoull(random_hex(8), nullptr, 16);
  replace_file(file, to_text(mark));
  return mark;
}

std::string settings_difference(const std::string& here, const std::string& there) {
  if (here == there) return "";
  const std::map<std::string, std::string> ours = values_of(here), theirs = values_of(there);
  std::map<std::string, std::string> all = ours;
  all.insert(theirs.begin(), theirs.end());
  const auto text_of = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found != values.end() ? found->second.substr(0, kMostOfAValue) : std::string("not set");
  };
  std::vector<std::string> keys;
  for (const auto& [key, value] : all) {
    const std::string ours_text = text_of(ours, key), theirs_text = text_of(theirs, key);
    if (ours.contains(key) && theirs.contains(key) && ours.at(key) == theirs.at(key)) continue;
    keys.push_back(fmt::format("{} ({} here, {} there)", key, ours_text, theirs_text));
  }
  if (keys.empty()) return "the lists of keys are written differently: run the same version of Paceline everywhere";
  const size_t more = keys.size() - std::min(keys.size(), kMostKeysNamed);
  keys.resize(keys.size() - more);
  return fmt::format("{}{}", fmt::join(keys, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// Keys are in alphabetical order, and the data's come after all others.
bool is_of_the_data(const std::string& difference) { return difference.starts_with(kDataSettings); }

}  // namespace paceline
