#include "paceline/train/run_state_text.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json some_state() {
  RunState state;
  state.step = 50;
  state.cursor_samples = 1600;
  state.train_loss = 0.25;
  state.loss_scale.scale = 1024;
  return state;
}

std::string refusal(const std::string& text) {
  try {
    parse_run_state(text, "run/state.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RunStateText, ComesBackAsItWas) {
  EXPECT_EQ(json(parse_run_state(some_state().dump(), "state.json")), some_state());
}

TEST(RunStateText, WhatNoWriterHasWrittenIsRefusedByName) {
  for (const char* key : {"/step", "/cursor_samples", "/window_correct", "/loss_scale/clean_steps"}) {
    for (const char* value : {"1e300", "1.5", "true", "null", "\"5\"", "18446744073709551615"}) {
      if (std::string(key) == "/cursor_samples" && std::string(value).starts_with("18"))
        continue;  // it may be as large
      json state = some_state();
      state[json::json_pointer(key)] = json::parse(value);
      const std::string name = std::string(key).substr(std::string(key).rfind('/') + 1);
      EXPECT_THAT(refusal(state.dump()), AllOf(HasSubstr("run/state.json: " + name), HasSubstr("a whole number")))
          << value;
    }
  }
  json negative = some_state();
  negative["cursor_samples"] = -1;
  EXPECT_THAT(refusal(negative.dump()), HasSubstr("cursor_samples: expected a whole number, found -1"));
  json not_a_number = some_state();
  not_a_number["train_loss"] = nullptr;
  EXPECT_THAT(refusal(not_a_number.dump()), HasSubstr("train_loss: expected a number, found null"));
  json shorter = some_state();
  shorter.erase("step");
  EXPECT_THAT(refusal(shorter.dump()), AllOf(HasSubstr("step: expected a value"), HasSubstr("another version")));
  json flat = some_state();
  flat["loss_scale"] = 3;
  EXPECT_THAT(refusal(flat.dump()), HasSubstr("loss_scale: expected an object"));
  for (const char* text : {"", "{", "[]", "3"}) EXPECT_THAT(refusal(text), HasSubstr("run/state.json: ")) << text;
}

TEST(RunStateText, ANewRunsIsAccepted) { EXPECT_EQ(refusal(json(RunState()).dump()), "accepted"); }

TEST(RunStateText, NumbersThatAreOfNoRunAreRefused) {
  const auto refused = [](const json& patch, const std::string& what) {
    json state = some_state();  // of step 50, 1600 samples
    state["window_samples"] = 96;
    state["test_accuracy"] = 0.5;
    state["best_accuracy"] = 0.75;
    EXPECT_EQ(refusal(state.dump()), "accepted");
    state.merge_patch(patch);
    EXPECT_THAT(refusal(state.dump()), HasSubstr("run/state.json: " + what)) << patch;
  };
  refused({{"step", -1}}, "step: expected 0 to");
  refused({{"cursor_samples", uint64_t{1} << 60}}, "cursor_samples: expected 0 to");
  refused({{"train_seconds", -1}}, "train_seconds: expected 0 to");
  refused({{"loss_scale", {{"scale", 0}}}}, "scale: expected");
  refused({{"loss_scale", {{"skipped_steps", 51}}}}, "skipped_steps: expected 0 to 50, found 51");
  refused({{"window_steps", 51}}, "window_steps: expected 0 to 50");
  refused({{"window_samples", 1601}}, "window_samples: expected 0 to 1600");
  refused({{"window_correct", 97}}, "window_correct: expected 0 to 96");
  refused({{"evaluated_step", 51}}, "evaluated_step: expected -1 to 50");
  refused({{"test_accuracy", 1.5}}, "test_accuracy: expected -1 to 1, found 1.5");
  refused({{"best_accuracy", 0.25}}, "best_accuracy: expected 0.5 to 1, found 0.25");
  refused({{"target_seconds", -2}}, "target_seconds: expected -1 to");
}

}  // namespace
}  // namespace paceline
