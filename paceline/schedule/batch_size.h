// Batch-size control (Mikami, Smith): the global batch as a pure function of the epoch. It has no state: a resumed run
// asks the same function.
//
//   const BatchSchedule batch = BatchPhases{.first = 34'816, .milestones = {30}, .sizes = {69'632}};
//   batch.at(29.9);  // 34,816
//   batch.at(30);    // 69,632
//
// How it comes about (local batch, accumulated micro-batches, active ranks) is for others to decide; the rate follows a
// schedule of its own.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline {

struct BatchPhases {
  uint64_t first = 1;              // samples in a global batch, from epoch 0 on
  std::vector<double> milestones;  // epochs; at a milestone the new size counts
  std::vector<uint64_t> sizes;     // from each milestone on
};

class BatchSchedule {
 public:
  // A plain number is a schedule too: always so many. REQUIRES: samples > 0
  BatchSchedule(uint64_t samples) : BatchSchedule(BatchPhases{.first = samples, .milestones = {}, .sizes = {}}) {}

  // REQUIRES: milestones > 0 that increase, a size for each, all sizes > 0
  BatchSchedule(BatchPhases phases);

  uint64_t at(double epoch) const;
  uint64_t largest() const { return largest_; }
  double next_milestone(double epoch) const;  // the first one after the epoch; infinity where none is left

 private:
  BatchPhases phases_;
  uint64_t largest_ = 0;
};

}  // namespace paceline
