// Explain a step: which gradients leave when, in which bucket, by which algorithm, and how much of that backward does
// not hide. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/collectives/bucket_plan.h"

namespace paceline {

struct BucketCost {
  std::string algorithm;
  double seconds = 0;  // predicted, through the codec
};

struct StepOutline {
  std::string model;
  std::string ranks;               // in words: "4 ranks on one host (shm)"
  std::vector<std::string> names;  // of the parameters, in backward order
  std::vector<size_t> counts;      // their elements
  BucketPlan plan;
  std::vector<BucketCost> buckets;  // of each bucket of the plan
  std::string codec = "none";
  double codec_ratio = 1;  // bytes of f32 for one on the wire

  std::string no_overlap;  // why nothing leaves before backward is over; empty: buckets leave as they fill
  std::string links;       // assumptions_of(the cluster)

  double backward_s = 0;
  bool backward_assumed = false;    // it is assumed_backward_s(): nobody knew
  std::optional<double> forward_s;  // nothing: half of backward
  std::vector<double> ready_s;      // of each gradient; empty: assumed_ready_s()
};

struct StepPrediction {
  std::vector<BucketTimes> buckets;
  OverlapPrediction overlap;
  double computing_s = 0;  // forward and backward

  double hidden_share() const;  // of the communication; 1 where there is none
  double efficiency() const;    // computing / (computing + exposed communication)
};
StepPrediction predict_step(const StepOutline& step);

// One sentence: what to change if it is poor, in the words of a recipe. Where backward was assumed: below which time
// it is poor.
std::string advise(const StepOutline& step);

// What was assumed, a table of the buckets, the totals, and that sentence.
std::string explain_step(const StepOutline& step);

}  // namespace paceline
