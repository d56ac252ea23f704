// One row of the table that gpu_checks prints.
#pragma once

#include <fmt/format.h>

namespace paceline {

inline void print_check_heading() {
  fmt::print("{:<22}{:<34}{:>6}{:>16}{:>9}\n", "subject", "check", "cases", "largest error", "");
}

// `failed`: also where the error says nothing.
inline void print_check(const std::string& subject, const std::string& check, int cases, double error, bool failed) {
  fmt::print("{:<22}{:<34}{:>6}{:>16.3g}{:>9}\n", subject, check, cases, error, failed ? "FAILED" : "ok");
  std::fflush(stdout);
}

}  // namespace paceline
