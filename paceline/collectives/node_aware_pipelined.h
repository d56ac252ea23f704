// Pipelined node-aware all-reduce: node_aware in S segments, the node phase of one during the network phase of the one
// before. With N and W the times of all node and network phases: max(N, W) + min(N, W)/S.
#pragma once

#include <array>
#include <memory>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/exchange.h"
#include "paceline/collectives/node_phase.h"

namespace paceline {

class NodeAwarePipelined : public AllReduce {
 public:
  NodeAwarePipelined(Group& group, const Cluster& cluster);  // REQUIRES: as many ranks on every host

 protected:
  void reduce(const TensorView& data, ReduceOp op) override;

 private:
  // The network phase of a segment. Two are under way at once, each on a group of its own: their messages would else
  // have no fixed order.
  struct Crossing {
    std::unique_ptr<Group> network;
    ExchangeSequence exchanges;
  };
  void complete(Segment segment);

  Cluster cluster_;
  std::unique_ptr<Group> node_;
  std::array<Crossing, 2> crossings_;
  NodePhase phase_;
};

// How many segments are quickest for a buffer of that size: segments of at least 1 MiB, at most 16.
int pipeline_segments(const Cluster& cluster, double bytes);
Cost node_aware_pipelined_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
