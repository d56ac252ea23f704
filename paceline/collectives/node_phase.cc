#include "paceline/collectives/node_phase.h"

#include <algorithm>

#include "paceline/collectives/all_gather.h"
#include "paceline/collectives/direct.h"
#include "paceline/collectives/reduce_scatter.h"
#include "paceline/collectives/ring.h"
#include "paceline/kernels/reduce.h"

namespace paceline {
namespace {

constexpr size_t kBlockBytes = 256 << 10;  // some ten microseconds of adding between two looks at the network

TensorView part(TensorView buffer, Segment segment, const Group& node) {
  return chunk(chunk(buffer, segment.index, segment.count), node.rank(), node.size());
}

}  // namespace

NodePhase::NodePhase(Group& node, std::function<void()> meanwhile) : node_(node), meanwhile_(std::move(meanwhile)) {
  if (node.shared_memory() == nullptr) return;
  buffers_.resize(node.size());
  blocks_.resize(node.size());
}

void NodePhase::begin(TensorView data) {
  data_ = shown_ = data;
  if (buffers_.empty()) return;
  SharedMemory& shared = *node_.shared_memory();
  if (!shared.visible(data)) {
    shown_ = shared.staging(data.count, data.dtype);
    copy_bytes(shown_, data);
  }
  std::ranges::copy(shared.exchange(shown_), buffers_.begin());
}

TensorView NodePhase::own_chunk(Segment segment) const { return part(shown_, segment, node_); }

TensorView NodePhase::reduce_scatter(Segment segment, ReduceOp op) {
  if (buffers_.empty()) {
    ring_reduce_scatter(node_, chunk(data_, segment.index, segment.count), op);
    meanwhile_();
  } else {
    reduce_shared(segment, op);
  }
  return own_chunk(segment);
}

void NodePhase::all_gather(Segment segment) {
  if (buffers_.empty()) {
    ring_all_gather(node_, chunk(data_, segment.index, segment.count));
    meanwhile_();
  } else {
    spread_shared(segment);
  }
}

// Nobody else touches this rank's chunk of any buffer, so there is nothing to wait for.
void NodePhase::reduce_shared(Segment segment, ReduceOp op) {
  const TensorView sum = own_chunk(segment);
  const size_t block = kBlockBytes / size_of(sum.dtype);
  for (size_t at = 0; at < sum.count; at += block) {
    const size_t length = std::min(block, sum.count - at);
    for (size_t rank = 0; rank < buffers_.size(); ++rank)
      blocks_[rank] = part(buffers_[rank], segment, node_).slice(at, length);
    const TensorView result = sum.slice(at, length);
    reduce_many(blocks_, std::span(&result, 1), op);
    meanwhile_();
  }
}

void NodePhase::spread_shared(Segment segment) {
  const TensorView sum = own_chunk(segment);
  for (int rank = 0; rank < node_.size(); ++rank) {
    if (rank == node_.rank()) continue;
    copy_bytes(part(buffers_[rank], segment, node_), sum);
    meanwhile_();
  }
}

void NodePhase::end() {
  if (buffers_.empty()) return;
  node_.shared_memory()->meet();
  if (shown_.data != data_.data) copy_bytes(data_, shown_);
}

Cost node_phase_cost(const Cluster& node, double bytes) {
  return node.shared_memory ? direct_cost(node, bytes) : ring_cost(node, bytes);
}

}  // namespace paceline
