// Ring all-reduce: 2(p-1) steps; each rank sends 2(p-1)/p of the buffer.
// Best for large buffers: the bytes are minimal, the steps grow with p.
#include "paceline/collectives/ring.h"

#include "paceline/collectives/all_gather.h"
#include "paceline/collectives/reduce_scatter.h"

namespace paceline {

void ring_all_reduce(Group& group, TensorView data, ReduceOp op) {
  ring_reduce_scatter(group, data, op);
  ring_all_gather(group, data);
}

Cost ring_cost(const Cluster& cluster, double bytes) {
  const int64_t steps = 2 * (int64_t{cluster.ranks} - 1);
  const double chunk_bytes = bytes / cluster.ranks;
  const int crossing = cluster.hosts > 1 ? 1 : 0;  // the last rank of a host sends to the next host
  const double sent = static_cast<double>(steps) * chunk_bytes;
  return {steps, sent, crossing * sent,
          static_cast<double>(steps) * message_seconds(cluster, chunk_bytes, crossing) +
              sent / 2 * cluster.gamma_s_per_byte};
}

}  // namespace paceline
