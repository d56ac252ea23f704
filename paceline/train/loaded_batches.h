// LoadedBatches: a loader's own buffers as tensors. Each is wrapped once; nothing is copied. For a CPU.
#pragma once

#include <vector>

#include "paceline/train/batches.h"

namespace paceline {

// A loader's slots as tensors, each for as many samples as it has room.
std::vector<TrainingBatch> wrapped_slots(Loader& loader);

class LoadedBatches : public Batches {
 public:
  explicit LoadedBatches(BatchSource source);

  const TrainingBatch& next() override;
  int64_t waited_ns() const override { return loader_.waited_ns(); }

 private:
  Loader loader_;
  const std::vector<TrainingBatch> slots_;
  TrainingBatch batch_;
};

}  // namespace paceline
