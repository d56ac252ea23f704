// Direct all-reduce through shared memory: 2 meetings, 2n(p-1)/p β + n(p-1)/p γ.
#pragma once

#include <vector>

#include "paceline/collectives/all_reduce.h"

namespace paceline {

class Direct : public AllReduce {
 public:
  explicit Direct(Group& group);  // REQUIRES: group.shared_memory()

 protected:
  void reduce(const TensorView& data, ReduceOp op) override;

 private:
  std::vector<TensorView> chunks_;  // this rank's chunk of every rank's buffer
};

Cost direct_cost(const Cluster& cluster, double bytes);

}  // namespace paceline
