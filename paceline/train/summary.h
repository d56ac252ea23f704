// Summary: what a run came to. summary.json for programs, a table for people.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "paceline/metrics/step_costs.h"

namespace paceline {

// Accuracies are fractions of 1; -1 stands for "none" and is null in JSON.
struct Summary {
  std::string recipe, model, data, device, precision, engine, codec, policy, optimizer, version;
  std::string ending;  // "epochs", "max_steps", "target" or "interrupted"
  int64_t parameters = 0;
  int64_t classes = 0;
  int64_t ranks = 1;
  int64_t threads = 1;  // per rank
  double rate = 0;      // optimizer.rate, as the recipe has it
  uint64_t seed = 0;    // train.seed
  int64_t global_batch = 0;
  int64_t step_samples = 0;          // that a step takes, where that is no global batch; 0: it is
  bool step_samples_vary = false;    // then it is their mean
  bool evaluates_meanwhile = false;  // training goes on beside: its time has that of evaluations in it
  double epochs = 0;                 // samples seen / data size
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t skipped_steps = 0;  // whose gradients had overflowed
  int64_t graph_steps = 0;    // of this process's part of the run, launched as one CUDA graph
  double train_seconds = 0;
  double eval_seconds = 0;
  double loader_wait_seconds = 0;  // of train_seconds, in this process
  double images_per_second = 0;
  GroupCosts costs;  // of the steps of this process's part of the run
  double train_loss = -1;
  double test_loss = -1;
  double test_accuracy = -1;
  double test_top5 = -1;
  double best_accuracy = -1;
  double target_seconds = -1;  // training time until the target accuracy
  double target_epoch = -1;
  std::string weights_sha256;
  int64_t peak_rss_bytes = 0;
};

nlohmann::ordered_json to_json(const Summary& summary);
std::string to_table(const Summary& summary);

}  // namespace paceline
