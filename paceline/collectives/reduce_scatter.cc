#include "paceline/collectives/reduce_scatter.h"

#include "paceline/collectives/ring_pass.h"

namespace paceline {

void ring_reduce_scatter(Group& group, TensorView data, ReduceOp op) {
  const int ranks = group.size();
  if (ranks == 1) return;              // the inbox would be as large as the data
  const auto behind = [&](int hops) {  // the chunk `hops` places behind this rank on the ring
    return chunk(data, (group.rank() + 2 * ranks - hops) % ranks, ranks);
  };

  const TensorView largest = chunk(data, 0, ranks);
  const int pieces = pieces_of(largest.bytes());
  const size_t room = chunk(largest, 0, pieces).count;
  const TensorView inbox = group.scratch(room * (pieces + 1), data.dtype);

  // Each chunk travels once around, gathering one more rank per step, and ends at the rank that it belongs to.
  const auto out = [&](int item) { return chunk(behind(item / pieces + 1), item % pieces, pieces); };
  const auto sum = [&](int item) { return out(item + pieces); };
  const auto in = [&](int item) { return inbox.slice(room * (item % (pieces + 1)), sum(item).count); };
  pass_around_ring(group, (ranks - 1) * pieces, pieces, out, in,
                   [&](int item) { group.reduce_local(sum(item), in(item), op); });
}

}  // namespace paceline
