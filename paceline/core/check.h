// Checks of our own contracts: a failed one is a bug in Paceline, reported with both values.
//
//   CHECK_LE(used_bytes, codec.most_bytes(count));
//   CHECK_TRUE(decides != nullptr, "{} is no key", name);
//
// There is no plain CHECK: libtorch's headers define a macro of that name.
#pragma once

#include <fmt/format.h>

#include "paceline/core/error.h"

namespace paceline::detail {

[[noreturn]] inline void check_failed(const char* file, int line, const std::string& what) {
  throw InternalError(fmt::format("{}:{}: {} (this is a bug in Paceline; please report it)", file, line, what));
}

template <class Left, class Right>
[[noreturn]] void comparison_failed(const char* file, int line, const char* text, const Left& left,
                                    const Right& right) {
  check_failed(file, line, fmt::format("check failed: {} ({} vs. {})", text, left, right));
}

}  // namespace paceline::detail

#define CHECK_TRUE(condition, ...)                                                                     \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                     \
      ::paceline::detail::check_failed(__FILE__, __LINE__,                                             \
                                       "check failed: " #condition ": " + ::fmt::format(__VA_ARGS__)); \
  } while (false)

#define PACELINE_CHECK_COMPARISON(left, op, right)                                                                    \
  do {                                                                                                                \
    const auto& check_left_ = (left);                                                                                 \
    const auto& check_right_ = (right);                                                                               \
    if (!(check_left_ op check_right_)) [[unlikely]]                                                                  \
      ::paceline::detail::comparison_failed(__FILE__, __LINE__, #left " " #op " " #right, check_left_, check_right_); \
  } while (false)

#define CHECK_EQ(left, right) PACELINE_CHECK_COMPARISON(left, ==, right)
#define CHECK_NE(left, right) PACELINE_CHECK_COMPARISON(left, !=, right)
#define CHECK_LT(left, right) PACELINE_CHECK_COMPARISON(left, <, right)
#define CHECK_LE(left, right) PACELINE_CHECK_COMPARISON(left, <=, right)
#define CHECK_GT(left, right) PACELINE_CHECK_COMPARISON(left, >, right)
#define CHECK_GE(left, right) PACELINE_CHECK_COMPARISON(left, >=, right)
