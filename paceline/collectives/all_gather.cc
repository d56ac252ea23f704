#include "paceline/collectives/all_gather.h"

#include "paceline/collectives/ring_pass.h"

namespace paceline {

void ring_all_gather(Group& group, TensorView data) {
  const int ranks = group.size();
  const int pieces = pieces_of(chunk(data, 0, ranks).bytes());
  // Step s passes on what step s-1 brought; the first step, this rank's own chunk.
  const auto out = [&](int item) {
    return chunk(chunk(data, (group.rank() + ranks - item / pieces) % ranks, ranks), item % pieces, pieces);
  };
  const auto in = [&](int item) { return out(item + pieces); };
  pass_around_ring(group, (ranks - 1) * pieces, pieces, out, in, [](int) {});
}

}  // namespace paceline
