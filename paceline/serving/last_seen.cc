#include "paceline/serving/last_seen.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/number_text.h"

namespace paceline {
namespace {

std::filesystem::path note_of(const RunFolder& folder) { return folder.root / "seen.json"; }

int64_t most_in(const std::filesystem::path& file, const char* key) {
  if (!std::filesystem::exists(file)) return 0;
  std::string text;
  try {
    text = read_file(file);
  } catch (const FileError&) {
    return 0;
  }
  int64_t most = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) continue;
    if (const auto found = object.find(key); found != object.end() && found->is_number_integer())
      most = std::max(most, found->get<int64_t>());
  }
  return most;
}

}  // namespace

void note_last_seen(const RunFolder& folder, int64_t updates) {
  replace_file(note_of(folder), fmt::format("{{\"updates\": {}}}\n", updates));
}

int64_t last_seen_updates(const RunFolder& folder) {
  return std::max(most_in(note_of(folder), "updates"), most_in(folder.metrics(), "step"));
}

std::string what_is_lost(int64_t from, int64_t last_seen) {
  if (last_seen <= from) return "no later update is known of";
  return fmt::format("the run had made at least {} updates when last seen: at least {} are lost",
                     with_commas(static_cast<uint64_t>(last_seen)),
                     with_commas(static_cast<uint64_t>(last_seen - from)));
}

}  // namespace paceline
