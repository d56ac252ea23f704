// Sizes in words: K, M and G are decimal, KiB, MiB and GiB binary, everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

// "4MiB", "25 M", "512": a whole number and a unit. Nothing for any other text, and for what 64 bits cannot hold.
std::optional<uint64_t> parse_bytes(std::string_view text);

// Exact, in the unit that makes it shortest: parse_bytes(print_bytes(n)) is n.
std::string print_bytes(uint64_t bytes);

}  // namespace paceline
