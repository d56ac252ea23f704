// Halving-doubling: 2log₂p steps; each rank sends 2(p-1)/p of the buffer, as in a ring.
// Best for medium and large buffers on many ranks. Beyond a power of two it pays the whole buffer twice: there a ring
// is better for large ones. Near ranks exchange the large halves, so that little crosses between hosts.
#include "paceline/collectives/halving_doubling.h"

#include <utility>

#include "paceline/collectives/fold.h"

namespace paceline {
namespace {

// Halving: of what is left, keep one half and add the peer's to it, give the other. Doubling, on the way back: the
// peer's half returns finished.
void plan_among_power_of_two(int rank, int distance, int ranks, TensorView left, ExchangeSequence& sequence) {
  if (distance == ranks) return;
  TensorView keep = chunk(left, 0, 2);
  TensorView give = chunk(left, 1, 2);
  if ((rank & distance) != 0) std::swap(keep, give);
  const int peer = rank ^ distance;
  sequence.add({peer, give, keep, Exchange::Arrival::is_added});
  plan_among_power_of_two(rank, 2 * distance, ranks, keep, sequence);
  sequence.add({peer, keep, give});
}

}  // namespace

void plan_halving_doubling(const Group& group, TensorView data, ExchangeSequence& sequence) {
  const Fold fold(group.rank(), group.size());
  const TensorView nothing = data.first(0);
  if (fold.is_extra()) {
    sequence.add({fold.partner(), data, nothing});
    sequence.add({fold.partner(), nothing, data});
    return;
  }
  if (fold.has_extra()) sequence.add({fold.partner(), nothing, data, Exchange::Arrival::is_added});
  plan_among_power_of_two(group.rank(), 1, fold.ranks, data, sequence);
  if (fold.has_extra()) sequence.add({fold.partner(), data, nothing});
}

void halving_doubling_all_reduce(Group& group, TensorView data, ReduceOp op) {
  ExchangeSequence sequence;
  plan_halving_doubling(group, data, sequence);
  sequence.run(group, op);
}

Cost halving_doubling_cost(const Cluster& cluster, double bytes) {
  Cost cost = fold_cost(cluster, bytes);
  double half = bytes / 2;
  for (int distance = 1; 2 * distance <= cluster.ranks; distance *= 2, half /= 2) {
    const int crossing = crossing_ranks(cluster, distance);
    cost = cost + Cost{2, 2 * half, 2 * crossing * half,
                       2 * message_seconds(cluster, half, crossing) + half * cluster.gamma_s_per_byte};
  }
  return cost;
}

}  // namespace paceline
