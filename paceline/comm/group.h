// Group: the ranks that train together, as one of them sees it.
//
// Every rank calls the same operations in the same order. Buffers belong to the caller and must stay until the call
// returns. A group of one rank runs the ordinary path: its sums are its own values.
#pragma once

#include <cstdint>

#include "paceline/core/tensor_view.h"

namespace paceline {

class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Counts the groups that this run has had: ranks of different generations never talk to each other.
  virtual uint64_t generation() const = 0;
  virtual const char* engine() const = 0;  // "local"

  // Every rank's `data` becomes the sum over all ranks, added in rank order: the same bits everywhere, in every run.
  // REQUIRES: the same count and type on every rank; f32, f64 or i64.
  virtual void all_reduce_sum(TensorView data) = 0;

  // Every rank's `data` becomes that of `root`.
  virtual void broadcast(TensorView data, int root) = 0;

  // Returns when every rank has called it.
  virtual void barrier() = 0;
};

}  // namespace paceline
