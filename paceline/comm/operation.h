// Operation: what a rank does together with others, in words that can be compared between ranks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/core/tensor_view.h"
#include "paceline/kernels/reduce.h"

namespace paceline {

enum class Verb : uint8_t {
  none,
  barrier,
  broadcast,
  all_gather,
  all_to_all,
  all_reduce,
  reduce_scatter,
  split,
  send,
  receive
};

std::string_view name_of(ReduceOp op);
std::string_view name_of(Verb verb);

struct Operation {
  Verb verb = Verb::none;
  DType dtype = DType::u8;
  ReduceOp reduce = ReduceOp::sum;
  int32_t peer = -1;      // the root of a broadcast, the other end of a send or receive
  uint64_t count = 0;     // elements; 0 where ranks may differ (all_to_all, split)
  uint64_t sequence = 0;  // counts the collective operations of a group, from 1; 0 for send and receive

  uint64_t bytes() const { return count * size_of(dtype); }
  bool operator==(const Operation&) const = default;
};

// The same on all ranks that are in the same operation, different (but for one chance in 2^64) on others.
uint64_t code_of(const Operation& operation);

// An operation as words, for places that one thread writes and others read at the same time.
struct OperationWords {
  uint64_t what = 0;  // verb, dtype, reduce, peer; 0 is no operation
  uint64_t count = 0;
  uint64_t sequence = 0;
};
inline OperationWords to_words(const Operation& operation) {
  const auto peer = static_cast<uint64_t>(static_cast<uint32_t>(operation.peer));
  return {static_cast<uint64_t>(operation.verb) | static_cast<uint64_t>(operation.dtype) << 8 |
              static_cast<uint64_t>(operation.reduce) << 16 | peer << 32,
          operation.count, operation.sequence};
}
Operation from_words(const OperationWords& words);

// "all_reduce #12 (sum of 1000 f32, 4000 bytes)", "broadcast #3 (4 u8, 4 bytes, from rank 0)", "barrier #4"
std::string to_text(const Operation& operation);

}  // namespace paceline
