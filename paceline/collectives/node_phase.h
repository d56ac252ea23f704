// NodePhase: the part of an all-reduce that stays within a host: a sum of which each rank holds its chunk, and, when
// the hosts have exchanged those, the way back. Any number of segments of one buffer, one after the other.
//
// Through shared memory where the ranks share it (as direct: the ranks meet at the beginning and at the end, however
// many segments there are), else by ring reduce-scatter and all-gather.
#pragma once

#include <functional>
#include <vector>

#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

// Equal parts of a buffer: segment `index` of `count`.
struct Segment {
  size_t index = 0;
  size_t count = 1;
};

class NodePhase {
 public:
  // `meanwhile` is called now and then while this works: whoever has messages under way looks after them there.
  explicit NodePhase(
      Group& node, std::function<void()> meanwhile = [] {});

  void begin(TensorView data);
  // Returns this rank's chunk of the segment, summed over the host. Valid until end().
  TensorView reduce_scatter(Segment segment, ReduceOp op);
  // Brings that chunk, as it now is, to all ranks of the host.
  void all_gather(Segment segment);
  void end();  // data is complete

 private:
  TensorView own_chunk(Segment segment) const;
  void reduce_shared(Segment segment, ReduceOp op);
  void spread_shared(Segment segment);

  Group& node_;
  std::function<void()> meanwhile_;
  TensorView data_;
  TensorView shown_;                 // data_, or a copy where the others cannot see data_
  std::vector<TensorView> buffers_;  // every rank's `shown_`; empty without shared memory
  std::vector<TensorView> blocks_;
};

Cost node_phase_cost(const Cluster& node, double bytes);

}  // namespace paceline
