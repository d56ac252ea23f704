// What options that count something accept.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <string>

namespace paceline {

// For CLI::Option::check(): empty, or what is wrong with the text.
inline std::string at_least_one(const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed_to, failure] = std::from_chars(text.data(), end, number);
  if (failure == std::errc() && parsed_to == end && number >= 1) return "";
  return fmt::format("expected a whole number from 1 on, found '{}'", text);
}

}  // namespace paceline
