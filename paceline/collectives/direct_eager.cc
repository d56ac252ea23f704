// Eager direct all-reduce: every rank shows a copy of its buffer and adds up everybody's, in rank order.
// Best on one host for small buffers: the ranks meet once. The next call fills the other staging room, so nobody has to
// wait until all have read this one.
#include "paceline/collectives/direct_eager.h"

#include "paceline/kernels/reduce.h"

namespace paceline {

void direct_eager_all_reduce(Group& group, TensorView data, ReduceOp op) {
  SharedMemory& shared = *group.shared_memory();
  const TensorView copy = shared.staging(data.count, data.dtype);
  copy_bytes(copy, data);
  reduce_many(shared.exchange(copy), std::span(&data, 1), op);
}

Cost direct_eager_cost(const Cluster& cluster, double bytes) {
  if (cluster.ranks == 1) return {};
  const double read = bytes * (cluster.ranks - 1);
  return {1, read, 0,
          cluster.meeting_s + (read + bytes) * cluster.node.beta_s_per_byte + read * cluster.gamma_s_per_byte};
}

}  // namespace paceline
