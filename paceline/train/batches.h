// Batches: one rank's share of every global batch, as tensors on the device that trains, in order, for ever.
//
//   auto batches = make_batches({data.train, data.normalisation, options, cursor_samples}, device, format, "auto");
//   for (;;) step(batches->next());
//
// Where they come from is decided once: the loader's own buffers (a CPU), copies of them that travel beside the step
// (a GPU), or a data set that stays in the GPU's memory and is augmented there. The samples, their order and their
// pixels are the same in all three.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>

#include "paceline/data/loader.h"

namespace paceline {

struct TrainingBatch {
  torch::Tensor images, labels;  // N x C x H x W; N, as int64
  size_t count = 0;              // N: samples in this rank's share; may be 0
  size_t global_count = 0;       // samples of all ranks
};

class Batches {
 public:
  virtual ~Batches() = default;

  // Valid until the next call, for work that is queued on the stream that is current now; whoever reads them on another
  // stream orders the two. On a GPU, batches of as many samples lie at the same addresses every time, so that a CUDA
  // graph may read them. Throws what the data set throws, in place of the batch it spoiled.
  virtual const TrainingBatch& next() = 0;

  // Total time that next() waited for samples to be prepared.
  virtual int64_t waited_ns() const { return 0; }
};

// What the model wants on a GPU. A CPU has f32 and channels first.
struct ImageFormat {
  torch::Dtype dtype = torch::kFloat32;  // or f16, bf16: the f32 numbers, rounded
  bool channels_last = false;
};

// What is read, and from where on: see Loader.
struct BatchSource {
  std::shared_ptr<const Dataset> dataset;
  Normalisation normalisation;
  LoaderOptions options;
  uint64_t cursor_samples = 0;
};

// `resident` is data.resident of a recipe.
std::unique_ptr<Batches> make_batches(BatchSource source, torch::Device device, ImageFormat format,
                                      const std::string& resident);

uint64_t resident_bytes(const Dataset& dataset);  // what it takes on a device

// Whether a set of that size is kept on a device with so much free memory. "auto": where it takes a quarter of it at
// most; the rest is for the model. "always" without enough of it is a RecipeError.
bool is_kept_resident(const std::string& resident, uint64_t set_bytes, uint64_t free_bytes);

}  // namespace paceline
