#include "paceline/rendezvous/world_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/private_folder.h"

namespace paceline {

int64_t wait_timeout_ms(int64_t asked_ms, const Environment& environment) {
  if (asked_ms > 0) return std::min(asked_ms, kLongestTimeoutMs);
  const std::optional<std::string> text = environment("PACELINE_TIMEOUT");
  if (!text) return kDefaultTimeoutMs;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  const bool too_large = error == std::errc::result_out_of_range && text->find("e-") == std::string::npos;
  if (end != text->data() + text->size() || (error != std::errc() && !too_large) || (!too_large && !(seconds > 0)))
    throw UsageError(fmt::format("PACELINE_TIMEOUT={}: not a number of seconds above 0", *text));
  if (too_large || seconds * 1000 >= static_cast<double>(kLongestTimeoutMs)) return kLongestTimeoutMs;
  return std::max<int64_t>(static_cast<int64_t>(seconds * 1000), 1);
}

FlightFolder flight_folder(const std::filesystem::path& asked, const Environment& environment, const std::string& job) {
  if (!asked.empty()) return {asked, true};
  if (const auto folder = environment("PACELINE_FLIGHT_DIR")) return {*folder, true};
  const std::string name = fmt::format("paceline-flight-{}", job.empty() ? "run" : job);
  const auto own = environment("XDG_RUNTIME_DIR");
  const bool has_own = own && is_own_folder(*own);
  return {(has_own ? std::filesystem::path(*own) : std::filesystem::temp_directory_path()) / name};
}

void make_flight_folder(const FlightFolder& folder) {
  if (folder.chosen)
    make_directories(folder.path);
  else
    make_private_folder(folder.path);
}

}  // namespace paceline
