#include "paceline/train/run_state_text.h"

#include <fmt/format.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

// Throws DataError where `found` lacks a key of `model`, or has something else there: nlohmann would turn 1e300, -1 and
// true into some whole number without a word. `model` is what a writer writes.
void require_kinds(const nlohmann::json& found, const nlohmann::json& model, const std::string& file) {
  for (const auto& [key, like] : model.items()) {
    const auto value = found.find(key);
    const auto require = [&, &name = key](bool right, const char* expected) {
      if (!right)
        throw DataError(fmt::format("{}: {}: expected {}, found {}", file, name, expected,
                                    value == found.end()
                                        ? "nothing; was it written by another version of Paceline?"
                                        : value->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
    };
    require(value != found.end(), "a value");
    if (like.is_object()) {
      require(value->is_object(), "an object");
      require_kinds(*value, like, file);
    } else if (like.is_number_integer()) {
      const bool negative = value->is_number_integer() && !value->is_number_unsigned();
      require(value->is_number_integer() && (negative ? !like.is_number_unsigned() : *value <= uint64_t{INT64_MAX}),
              "a whole number");
    } else {
      require(value->is_number(), "a number");
    }
  }
}

}  // namespace

RunState parse_run_state(const std::string& text, const std::string& file) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (!json.is_object()) throw DataError(fmt::format("{}: expected an object, found {}", file, json.type_name()));
    require_kinds(json, RunState(), file);
    return json.get<RunState>();
  } catch (const nlohmann::json::exception& failure) {
    throw DataError(fmt::format("{}: damaged, or written by another version of Paceline: {}", file, failure.what()));
  }
}

}  // namespace paceline
