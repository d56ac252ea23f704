// What a run measures, as it happens: metrics.jsonl (one JSON object a line) and TensorBoard events, in the run's
// folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "paceline/metrics/append_file.h"
#include "paceline/metrics/event_file.h"

namespace paceline {

class Recorder {
 public:
  // Continues after `resumed_step` (0: a fresh run, which starts an empty file). Lines of later steps, which the
  // interrupted run wrote and which will come again, are removed; so is a torn last line. Throws FileError.
  Recorder(const std::filesystem::path& run_folder, int64_t resumed_step);

  using Values = std::vector<std::pair<std::string, double>>;

  // Writes {"kind":"train","step":..,"epoch":..,"seconds":..,values...}, and each value to TensorBoard as "train/NAME".
  // kind: "train" or "test". seconds: since the run began. What is not finite becomes null.
  // run_chart.h draws the values named "loss" and "accuracy" (a fraction).
  void record(const std::string& kind, int64_t step, double epoch, double seconds, const Values& values);
  // Of one of several things: {"kind":"layer","step":..,"epoch":..,"seconds":..,"layer":"fc.weight",values...}, and
  // "layer/fc.weight/NAME" for TensorBoard.
  void record_of(const std::string& kind, const std::string& which, int64_t step, double epoch, double seconds,
                 const Values& values);

  // record() flushes by itself once a second of the run, and after each test.
  void flush();

 private:
  void write(nlohmann::ordered_json line, const std::string& tag, const Values& values);

  AppendFile lines_;
  EventFile events_;
  double flushed_seconds_ = 0;
};

}  // namespace paceline
