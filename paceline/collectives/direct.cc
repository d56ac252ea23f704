// Direct all-reduce: each rank reads its chunk of all buffers, adds them in rank order and writes the sum to all.
// Best on one host for all but small buffers: no message is copied, and each byte is read and written once.
#include "paceline/collectives/direct.h"

#include "paceline/kernels/reduce.h"

namespace paceline {

Direct::Direct(Group& group) : AllReduce(group), chunks_(group.size()) {
  CHECK_TRUE(group.shared_memory() != nullptr, "the ranks of group {} share no memory", group.name());
}

void Direct::reduce(const TensorView& data, ReduceOp op) {
  SharedMemory& shared = *group().shared_memory();
  const bool staged = !shared.visible(data);
  const TensorView shown = staged ? shared.staging(data.count, data.dtype) : data;
  if (staged) copy_bytes(shown, data);

  const std::span<const TensorView> buffers = shared.exchange(shown);
  const TensorView mine = chunk(shown, group().rank(), chunks_.size());
  const size_t begin = static_cast<size_t>(static_cast<std::byte*>(mine.data) - static_cast<std::byte*>(shown.data));
  for (size_t rank = 0; rank < chunks_.size(); ++rank) {
    chunks_[rank] = mine;  // each division costs more than the rest
    chunks_[rank].data = static_cast<std::byte*>(buffers[rank].data) + begin;
  }
  reduce_many(chunks_, chunks_, op);
  shared.meet();
  if (staged) copy_bytes(data, shown);
}

Cost direct_cost(const Cluster& cluster, double bytes) {
  const double moved = bytes * (cluster.ranks - 1) / cluster.ranks;  // read from the others, and again written to them
  const int meetings = cluster.ranks > 1 ? 2 : 0;
  return {meetings, 2 * moved, 0,
          meetings * cluster.meeting_s + 2 * moved * cluster.node.beta_s_per_byte + moved * cluster.gamma_s_per_byte};
}

}  // namespace paceline
