// Whole numbers of a JSON text, as they stand there: nlohmann's own conversion makes some number or other of -1, 1e300
// and true, without a word.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {

// Throws DataError for what is no whole number from 0 to `most`.
inline uint64_t natural_of(const nlohmann::json& value, uint64_t most = std::numeric_limits<uint64_t>::max()) {
  if (!value.is_number_unsigned() || value > most)
    throw DataError(fmt::format("expected a whole number from 0 to {}, found {}", most,
                                value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
  return value.get<uint64_t>();
}

inline std::vector<uint64_t> naturals_of(const nlohmann::json& list) {
  if (!list.is_array()) throw DataError(fmt::format("expected a list of whole numbers, found {}", list.type_name()));
  std::vector<uint64_t> numbers;
  for (const nlohmann::json& number : list) numbers.push_back(natural_of(number));
  return numbers;
}

}  // namespace paceline
