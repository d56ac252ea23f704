#include "paceline/collectives/tree.h"

#include "paceline/collectives/exchange.h"

namespace paceline {
namespace {

// Places are counted from the root. A place's parent is what remains when its lowest bit goes; its children lie at the
// distances 1, 2, 4 ... below that bit.
struct Place {
  Place(const Group& group, int root) : ranks(group.size()), root(root), number((group.rank() + ranks - root) % ranks) {
    while (reach < ranks && (number & reach) == 0) reach *= 2;
  }
  bool is_root() const { return number == 0; }
  int parent() const { return rank_at(number - reach); }
  bool has_child(int distance) const { return distance < reach && number + distance < ranks; }
  int child(int distance) const { return rank_at(number + distance); }
  int rank_at(int place) const { return (place + root) % ranks; }

  int ranks;
  int root;
  int number;
  int reach = 1;  // the lowest bit of its number; for the root, the first power of two that no rank has
};

}  // namespace

void tree_reduce(Group& group, TensorView data, int root, ReduceOp op) {
  const Place place(group, root);
  ExchangeSequence sequence;
  for (int distance = 1; distance < place.reach; distance *= 2)
    if (place.has_child(distance))
      sequence.add({place.child(distance), data.first(0), data, Exchange::Arrival::is_added});
  if (!place.is_root()) sequence.add({place.parent(), data, data.first(0)});
  sequence.run(group, op);
}

void tree_broadcast(Group& group, TensorView data, int root) {
  const Place place(group, root);
  ExchangeSequence sequence;
  if (!place.is_root()) sequence.add({place.parent(), data.first(0), data});
  for (int distance = place.reach / 2; distance > 0; distance /= 2)  // the farthest child has the most to pass on
    if (place.has_child(distance)) sequence.add({place.child(distance), data, data.first(0)});
  sequence.run(group, ReduceOp::sum);
}

Cost tree_broadcast_cost(const Cluster& cluster, double bytes) {
  Cost cost;
  for (int distance = 1; distance < cluster.ranks; distance *= 2) {
    const int crossing = cluster.hosts > 1 && distance >= cluster.ranks_per_host ? 1 : 0;
    cost = cost + Cost{1, bytes, crossing * bytes, message_seconds(cluster, bytes, crossing)};
  }
  return cost;
}

Cost tree_reduce_cost(const Cluster& cluster, double bytes) {
  Cost cost = tree_broadcast_cost(cluster, bytes);
  cost.seconds += static_cast<double>(cost.steps) * bytes * cluster.gamma_s_per_byte;
  if (cluster.ranks > 1) cost.bytes_per_rank = bytes;  // each rank sends once, to its parent
  return cost;
}

}  // namespace paceline
