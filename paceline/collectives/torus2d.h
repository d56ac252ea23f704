// 2D torus all-reduce (Mikami et al., 2018) on X·Y = p ranks:
// [2(X-1) + 2(Y-1)]α + 2n(X-1)/X β + 2(n/X)(Y-1)/Y β.
#pragma once

#include <memory>

#include "paceline/collectives/all_reduce.h"

namespace paceline {

class Torus2d : public AllReduce {
 public:
  // Rank y·X + x has column x of row y. Ranks that are not consecutive on their hosts are first brought into the order
  // of hosts, so that rows hold whole hosts all the same.
  Torus2d(Group& group, Grid grid);

 protected:
  void reduce(const TensorView& data, ReduceOp op) override;

 private:
  std::unique_ptr<Group> row_;
  std::unique_ptr<Group> column_;
};

Cost torus2d_cost(const Cluster& cluster, Grid grid, double bytes);

}  // namespace paceline
