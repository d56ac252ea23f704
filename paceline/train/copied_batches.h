// CopiedBatches: what a loader prepares, copied to a GPU one batch ahead of the step, beside it. For data sets that do
// not fit into its memory.
//
//   loader's slot (page-locked)  --copy, on a stream of its own-->  one of two stagings (f32, channels first)
//   staging                      --on the step's stream-->          the batch, in the format of the model
//
// The second way costs microseconds and gives every batch the same address. Nobody waits on the host but for copies of
// two batches ago, whose slots the loader is about to fill again.
#pragma once

#include <c10/core/Event.h>

#include <array>
#include <exception>
#include <optional>
#include <vector>

#include "paceline/train/batch_buffer.h"

namespace paceline {

class CopiedBatches : public Batches {
 public:
  // A CPU copies at once; it is for tests.
  CopiedBatches(BatchSource source, torch::Device device, ImageFormat format);
  ~CopiedBatches() override;

  const TrainingBatch& next() override;
  int64_t waited_ns() const override { return loader_.waited_ns(); }

 private:
  struct Staging {
    explicit Staging(torch::DeviceType device) : copied(device), consumed(device) {}

    torch::Tensor images, labels;
    size_t count = 0, global_count = 0;
    std::exception_ptr error;  // why there is no batch
    c10::Event copied;         // the batch is here, and its slot was read
    c10::Event consumed;       // the batch is where the model reads it: another may come here
  };

  void fetch();

  const std::optional<c10::Stream> copying_;  // none on a CPU
  Loader loader_;
  const std::vector<TrainingBatch> slots_;
  BatchBuffer buffer_;
  std::array<Staging, 2> stagings_;  // batch number n comes to n modulo 2
  uint64_t fetched_ = 0;             // batches whose copy was asked for
  uint64_t taken_ = 0;               // batches that next() gave
};

}  // namespace paceline
