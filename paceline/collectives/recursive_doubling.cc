// Recursive doubling: log₂p steps; in each, every rank exchanges its whole buffer with the rank whose number differs in
// one bit. Best for small buffers: no algorithm of messages has fewer steps, but each moves all the bytes.
#include "paceline/collectives/recursive_doubling.h"

#include <array>

#include "paceline/collectives/fold.h"

namespace paceline {
namespace {

// All ranks add the lower rank's value first: a + b and b + a differ where both are NaN, max and min where both are
// zeros of different sign.
void add_in_rank_order(Group& group, TensorView data, TensorView theirs, int peer, ReduceOp op) {
  if (group.rank() < peer) {
    group.reduce_local(data, theirs, op);
  } else {
    group.reduce_local(theirs, data, op);
    copy_bytes(data, theirs);
  }
}

// Among the first `ranks` of the group, a power of two.
void double_up(Group& group, TensorView data, TensorView inbox, int ranks, ReduceOp op) {
  std::array<Work, 2> received;
  const auto peer = [&](int distance) { return group.rank() ^ distance; };
  const auto post = [&](int level) {  // the two rooms take turns
    if ((1 << level) < ranks) received[level % 2] = group.receive(chunk(inbox, level % 2, 2), peer(1 << level));
  };
  post(0);
  for (int level = 0; (1 << level) < ranks; ++level) {
    post(level + 1);
    Work sent = group.send(data, peer(1 << level));
    received[level % 2].wait();
    sent.wait();
    add_in_rank_order(group, data, chunk(inbox, level % 2, 2), peer(1 << level), op);
  }
}

}  // namespace

void recursive_doubling_all_reduce(Group& group, TensorView data, ReduceOp op) {
  const Fold fold(group.rank(), group.size());
  if (fold.is_extra()) {
    group.send(data, fold.partner()).wait();
    group.receive(data, fold.partner()).wait();
    return;
  }
  const TensorView inbox = group.scratch(2 * data.count, data.dtype);
  if (fold.has_extra()) {
    group.receive(inbox.first(data.count), fold.partner()).wait();
    group.reduce_local(data, inbox.first(data.count), op);
  }
  double_up(group, data, inbox, fold.ranks, op);
  if (fold.has_extra()) group.send(data, fold.partner()).wait();
}

Cost recursive_doubling_cost(const Cluster& cluster, double bytes) {
  Cost cost = fold_cost(cluster, bytes);
  for (int distance = 1; 2 * distance <= cluster.ranks; distance *= 2) {
    const int crossing = crossing_ranks(cluster, distance);
    cost = cost + Cost{1, bytes, crossing * bytes,
                       message_seconds(cluster, bytes, crossing) + bytes * cluster.gamma_s_per_byte};
  }
  return cost;
}

}  // namespace paceline
