// Pipelined node-aware all-reduce: the network is never idle while ranks of a host add.
// Best for large buffers on several hosts; each segment pays the latencies again, so small ones are better whole.
#include "paceline/collectives/node_aware_pipelined.h"

#include <algorithm>

#include "paceline/collectives/halving_doubling.h"
#include "paceline/collectives/node_aware.h"

namespace paceline {
namespace {

constexpr int kMostSegments = 16;
constexpr double kLeastSegmentBytes = 1 << 20;

Cost cost_in_segments(const Cluster& cluster, double bytes, int segments) {
  const Cluster node = part_of(cluster, cluster.ranks_per_host, cluster.ranks_per_host, 1);
  const Cost within = segments * node_phase_cost(node, bytes / segments);
  const Cost across = segments * network_phase_cost(cluster, bytes / segments);
  Cost cost = within + across;
  cost.seconds = std::max(within.seconds, across.seconds) + std::min(within.seconds, across.seconds) / segments;
  return cost;
}

}  // namespace

NodeAwarePipelined::NodeAwarePipelined(Group& group, const Cluster& cluster)
    : AllReduce(group), cluster_(cluster), node_(split_node(group)), phase_(*node_, [this] {
        for (Crossing& crossing : crossings_) crossing.exchanges.advance();
      }) {
  for (Crossing& crossing : crossings_) crossing.network = split_network(group, *node_);
}

void NodeAwarePipelined::reduce(const TensorView& data, ReduceOp op) {
  const size_t segments = pipeline_segments(cluster_, static_cast<double>(data.bytes()));
  phase_.begin(data);
  for (size_t index = 0; index < segments; ++index) {
    if (index >= 2) complete({index - 2, segments});
    const TensorView mine = phase_.reduce_scatter({index, segments}, op);
    Crossing& crossing = crossings_[index % 2];
    crossing.exchanges.clear();
    plan_halving_doubling(*crossing.network, mine, crossing.exchanges);
    crossing.exchanges.start(*crossing.network, op);
  }
  if (segments >= 2) complete({segments - 2, segments});
  complete({segments - 1, segments});
  phase_.end();
}

// All ranks come here and to their node phases in the same order: the earliest one that any rank waits in is one that
// all others have passed or will reach, so nobody waits for ever.
void NodeAwarePipelined::complete(Segment segment) {
  crossings_[segment.index % 2].exchanges.finish();
  phase_.all_gather(segment);
}

int pipeline_segments(const Cluster& cluster, double bytes) {
  const int most =
      std::clamp(static_cast<int>(std::min(bytes / kLeastSegmentBytes, 1.0 * kMostSegments)), 1, kMostSegments);
  int best = 1;
  for (int segments = 2; segments <= most; ++segments)
    if (cost_in_segments(cluster, bytes, segments).seconds < cost_in_segments(cluster, bytes, best).seconds)
      best = segments;
  return best;
}

Cost node_aware_pipelined_cost(const Cluster& cluster, double bytes) {
  return cost_in_segments(cluster, bytes, pipeline_segments(cluster, bytes));
}

}  // namespace paceline
