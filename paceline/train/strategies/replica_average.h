// ReplicaAverage: ranks that have trained alone become one again. Parameters and everything that the optimizer keeps in
// f32 become their means over the ranks (local SGD).
//
// Means are weighted by samples, as everywhere: a rank that saw more since the last time counts for more, one that saw
// none is only told the result. So averaging after every step of SGD, with momentum or without, is all-reduce training,
// whatever each rank's share. What an optimizer counts in integers or double precision is the same on all ranks: each
// has made every step, an empty one where it had no samples.
#pragma once

#include <span>

#include "paceline/core/clock.h"
#include "paceline/gradients/flat_sum.h"
#include "paceline/gradients/reducer.h"
#include "paceline/metrics/timeline.h"
#include "paceline/models/model.h"
#include "paceline/optim/optimizer.h"

namespace paceline {

class ReplicaAverage {
 public:
  // Every rank calls it. Model, optimizer and group must outlive this; `timeline` may be null. Throws UsageError when
  // the algorithm does not serve.
  ReplicaAverage(Model& model, Optimizer& optimizer, Group& group, const FlatSumOptions& options, Timeline* timeline);

  struct Samples {
    int64_t own = 0;  // that this rank has seen since the last average
    int64_t all = 0;  // and all ranks together
  };
  // Every rank calls it after the same step. `riders` travel along: each becomes its sum over the ranks. REQUIRES:
  // samples.all > 0
  void run(const Samples& samples, std::span<double> riders);

  Reducer::Cost take_cost() { return std::exchange(cost_, {}); }  // all of it was waited for
  std::string plan_json() const { return sum_.plan_json(); }
  std::string algorithm_text() const { return sum_.algorithm_text(); }

 private:
  std::vector<torch::Tensor> averaged() const;

  Model& model_;
  Optimizer& optimizer_;
  FlatSum sum_;
  Memory memory_;
  Timeline* timeline_;
  SteadyClock clock_;
  Reducer::Cost cost_;
};

}  // namespace paceline
