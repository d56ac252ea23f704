// The parameters of a step as one table of chunks, so that an update is one parallel loop over all of them: a network
// has a hundred tensors too small to share between threads, and a few that are too large not to.
//
// Chunks are cut from the beginning of each tensor, so sums over them have the same bits whatever other parameters
// there are, and however many threads.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "paceline/optim/parameter.h"

namespace paceline {

constexpr int64_t kChunkElements = 1 << 15;  // below this a second thread costs more than it brings

struct Chunk {
  size_t index;      // in the table
  size_t parameter;  // in the list of parameters
  int64_t begin;     // its first element within the parameter
  size_t count;
  int64_t before;  // elements of all chunks before it
  float* weights;  // at `begin`
  const float* gradient;
};

class ChunkTable {
 public:
  enum class Members { with_gradient, all };

  // Parameters that are single precision on the CPU become chunks; the others are left to torch's own operations, one
  // by one, until their device has a kernel that takes a whole table. Gradients are there only of `with_gradient`.
  explicit ChunkTable(const std::vector<Parameter>& parameters, Members members = Members::with_gradient);

  // One parallel loop. Each chunk is visited once, as a whole, by one thread.
  void for_each(const std::function<void(const Chunk&)>& visit) const;

  // The same with all that falls to a thread at once: the table is cut into one run of chunks per thread.
  void for_each_run(const std::function<void(std::span<const Chunk>)>& visit) const;

  std::span<const Chunk> chunks() const { return chunks_; }

  struct Whole {
    size_t parameter;
    torch::Tensor weights, gradient;
  };
  const std::vector<Whole>& others() const { return others_; }

 private:
  std::vector<Chunk> chunks_;
  std::vector<Whole> others_;
  std::vector<torch::Tensor> gradients_;  // keeps those alive that had to be laid out anew
  int64_t elements_ = 0;
};

}  // namespace paceline
