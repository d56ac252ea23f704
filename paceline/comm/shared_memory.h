// SharedMemory: what a group offers in addition when its ranks can read and write each other's buffers.
#pragma once

#include <span>

#include "paceline/core/tensor_view.h"

namespace paceline {

class SharedMemory {
 public:
  // Whether the others can see this buffer: it came from Group::allocate, scratch, or staging().
  virtual bool visible(TensorView data) const = 0;

  // Shows `mine` to the others; returns every rank's view, in rank order, once all ranks have called this.
  // What was written before the call by any rank is then seen by all. The span stays until the next call of exchange.
  // REQUIRES: visible(mine); the same count and type on every rank.
  virtual std::span<const TensorView> exchange(TensorView mine) = 0;

  // Waits until all ranks are here; what they wrote before is then seen by all.
  virtual void meet() = 0;

  // Visible room. Two take turns, so that this rank may fill one while others still read what the last exchange showed
  // them; with one exchange or meet per staging(), none is ever overwritten too early.
  virtual TensorView staging(size_t count, DType dtype) = 0;

 protected:
  ~SharedMemory() = default;
};

}  // namespace paceline
