// StaleSum: a step hands over its gradients, and gets the sum over the ranks of those of `staleness` steps before. So a
// sum has that many steps of time, in which nobody waits for it (sync/stale_all_reduce.h).
//
//   loss.backward();                    // grad() is this rank's share of the mean
//   if (sums.exchange(riders)) update();
//   ...
//   while (sums.take_next(riders)) update();   // at the end: what is still under way
//
// All ranks apply the same sums in the same order, and stay equal. A parameter that took no part on a rank counts as
// zero; one that took part on no rank has no gradient. Parameters are f32 on the CPU.
#pragma once

#include <torch/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/gradients/communication_thread.h"
#include "paceline/gradients/flat_sum.h"
#include "paceline/gradients/reducer.h"
#include "paceline/metrics/timeline.h"

namespace paceline {

struct StaleSumOptions {
  uint64_t staleness = 1;  // 0: a step waits for its own sum
  bool overlap = true;     // sums run beside the steps, on a thread; else within exchange()
  FlatSumOptions sum;
  Timeline* timeline = nullptr;  // told of every sum
};

class StaleSum {
 public:
  static constexpr size_t kMostRiders = 4;

  // The trainable parameters, in the order of the model. Every rank calls it with the same ones.
  StaleSum(std::vector<NamedParameter> parameters, Group& group, StaleSumOptions options);
  ~StaleSum();

  // Takes what grad() is, and leaves there the sum of `staleness` steps ago, until the next call; false: there is none
  // yet, and grad() is undefined. `riders` travel along: each becomes its sum over the ranks, of that earlier step; 0
  // where there is none.
  bool exchange(std::span<double> riders = {});
  // The oldest sum that is under way, as exchange() does; false: there is none.
  bool take_next(std::span<double> riders = {});

  // Waits until nothing is being summed; what is under way stays so. Before other operations of the same ranks: not
  // every engine serves two threads at once.
  void settle();

  uint64_t staleness() const { return options_.staleness; }
  uint64_t under_way() const { return made_ - taken_; }
  bool all_finite();  // what is under way; settles

  // The sums that are under way, for a checkpoint: "stale.AGE.NAME" by parameter, "stale.AGE" for how many ranks used
  // each. AGE 1 is the newest. They are the same on every rank. Live tensors; settles. Riders are left behind.
  std::map<std::string, torch::Tensor> state();
  // Begins anew with so many sums under way; the result is what is to be filled, on every rank alike. REQUIRES: ages <=
  // staleness
  std::map<std::string, torch::Tensor> resume(uint64_t ages);

  Reducer::Cost take_cost();  // since the last call
  std::string plan_json() const { return sum_.plan_json(); }
  std::string plan_text() const;

 private:
  float* slot(uint64_t number) const;
  std::span<float> used(uint64_t number) const;  // on how many ranks each parameter was
  std::span<float> riders(uint64_t number) const;
  size_t slot_count() const { return gradients_ + parameters_.size() + kMostRiders; }
  void give(uint64_t number, std::span<const double> riders);
  void take(uint64_t number, std::span<double> riders);
  void sum_slot(int job);
  void wait_for(uint64_t number);

  std::vector<NamedParameter> parameters_;
  std::vector<size_t> offsets_;  // of each parameter in a slot; behind them how often each was used, then riders
  size_t gradients_ = 0;         // elements of all
  size_t stride_ = 0;            // elements from one slot to the next
  StaleSumOptions options_;
  uint64_t slots_;
  FlatSum sum_;
  Memory memory_;
  uint64_t made_ = 0;       // gradients that were handed over
  uint64_t taken_ = 0;      // sums that were taken
  uint64_t begin_ = 0;      // the first since nothing was under way
  uint64_t first_job_ = 0;  // the first that is summed here: those before it were loaded
  SteadyClock clock_;
  std::atomic<int64_t> busy_ns_ = 0;
  int64_t exposed_ns_ = 0;
  std::unique_ptr<CommunicationThread> thread_;  // last: ends first
};

}  // namespace paceline
