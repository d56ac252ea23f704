#include "paceline/core/bytes.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <span>

namespace paceline {
namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};
// Also read, never printed.
constexpr Unit kOtherNames[] = {{"GB", 1'000'000'000}, {"MB", 1'000'000}, {"KB", 1'000}, {"kB", 1'000}, {"B", 1}};

// At equal length the earlier one is printed.
constexpr Unit kUnits[] = {{"GiB", 1ull << 30},
                           {"MiB", 1ull << 20},
                           {"KiB", 1ull << 10},
                           {"G", 1'000'000'000},
                           {"M", 1'000'000},
                           {"K", 1'000},
                           {"", 1}};

}  // namespace

std::optional<uint64_t> parse_bytes(std::string_view text) {
  uint64_t count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failure != std::errc()) return std::nullopt;
  std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (rest.size() > 1 && rest.front() == ' ') rest.remove_prefix(1);
  for (const std::span<const Unit> units : {std::span<const Unit>(kUnits), std::span<const Unit>(kOtherNames)}) {
    for (const Unit& unit : units) {
      if (rest != unit.name) continue;
      if (count > std::numeric_limits<uint64_t>::max() / unit.bytes) return std::nullopt;
      return count * unit.bytes;
    }
  }
  return std::nullopt;
}

std::string print_bytes(uint64_t bytes) {
  std::string shortest;
  for (const Unit& unit : kUnits) {
    if (bytes % unit.bytes != 0 || (bytes == 0 && unit.bytes != 1)) continue;
    std::string text = fmt::format("{}{}", bytes / unit.bytes, unit.name);
    if (shortest.empty() || text.size() < shortest.size()) shortest = std::move(text);
  }
  return shortest;
}

}  // namespace paceline
