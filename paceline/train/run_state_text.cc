#include "paceline/train/run_state_text.h"

#include <fmt/format.h>

#include <limits>

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

void require_ranges(const RunState& state, const std::string& file) {
  constexpr double kAny = std::numeric_limits<double>::max();  // that is finite
  constexpr double kMostSamples = 0x1p53;                      // beyond it a double does not count one by one
  const auto number = [](auto value) { return static_cast<double>(value); };
  const LossScaleState& scaling = state.loss_scale;
  const double steps = number(state.step), samples = number(state.cursor_samples);
  struct Figure {
    const char* name;
    double value, from, to;
  };
  const Figure figures[] = {
      {"step", steps, 0, kMostSamples},
      {"cursor_samples", samples, 0, kMostSamples},
      {"train_seconds", state.train_seconds, 0, kAny},
      {"eval_seconds", state.eval_seconds, 0, kAny},
      {"scale", scaling.scale, std::numeric_limits<double>::min(), kAny},
      {"clean_steps", number(scaling.clean_steps), 0, steps},
      {"skips_in_a_row", number(scaling.skips_in_a_row), 0, steps},
      {"skipped_steps", number(scaling.skipped_steps), 0, steps},
      {"window_steps", number(state.window_steps), 0, steps},
      {"window_loss_sum", state.window_loss_sum, -kAny, kAny},
      {"window_samples", number(state.window_samples), 0, samples},
      {"window_correct", number(state.window_correct), 0, number(state.window_samples)},
      {"evaluated_step", number(state.evaluated_step), -1, steps},  // from here on -1 says that there is none
      {"train_loss", state.train_loss, -1, kAny},
      {"train_accuracy", state.train_accuracy, -1, 1},
      {"test_accuracy", state.test_accuracy, -1, 1},
      {"test_top5", state.test_top5, -1, 1},
      {"test_loss", state.test_loss, -1, kAny},
      {"best_accuracy", state.best_accuracy, state.test_accuracy, 1},
      {"target_seconds", state.target_seconds, -1, kAny},
      {"target_epoch", state.target_epoch, -1, samples},
  };
  for (const Figure& figure : figures)
    if (!(figure.value >= figure.from && figure.value <= figure.to))
      throw DataError(
          fmt::format("{}: {}: expected {} to {}, found {}", file, figure.name, figure.from, figure.to, figure.value));
}

}  // namespace

RunState parse_run_state(const std::string& text, const std::string& file) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (!json.is_object()) throw DataError(fmt::format("{}: expected an object, found {}", file, json.type_name()));
    require_kinds(json, RunState(), file);
    const auto state = json.get<RunState>();
    require_ranges(state, file);
    return state;
  } catch (const nlohmann::json::exception& failure) {
    throw DataError(fmt::format("{}: damaged, or written by another version of Paceline: {}", file, failure.what()));
  }
}

}  // namespace paceline
