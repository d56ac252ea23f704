// 2D torus all-reduce: as few bytes as a ring, and about 4√p steps instead of 2p.
// Best for large buffers on hundreds of ranks and more; on fewer, or for smaller ones, halving-doubling has fewer
// steps.
#include "paceline/collectives/torus2d.h"

#include <algorithm>

#include "paceline/collectives/all_gather.h"
#include "paceline/collectives/host_order.h"
#include "paceline/collectives/reduce_scatter.h"
#include "paceline/collectives/ring.h"

namespace paceline {

Torus2d::Torus2d(Group& group, Grid grid) : AllReduce(group) {
  CHECK_EQ(grid.x * grid.y, group.size());
  const int place = place_by_host(group.topology(), group.rank());
  row_ = group.split(place / grid.x, place);
  column_ = group.split(place % grid.x, place);
}

void Torus2d::reduce(const TensorView& data, ReduceOp op) {
  ring_reduce_scatter(*row_, data, op);
  ring_all_reduce(*column_, chunk(data, row_->rank(), row_->size()), op);
  ring_all_gather(*row_, data);
}

Cost torus2d_cost(const Cluster& cluster, Grid grid, double bytes) {
  const int on_host = cluster.ranks_per_host;
  const int rows_on_host = std::max(1, on_host / grid.x);
  const int columns_on_host = std::min(on_host, grid.x);
  const Cluster row = part_of(cluster, grid.x, on_host, rows_on_host);
  const Cluster column = part_of(cluster, grid.y, rows_on_host, columns_on_host);
  Cost along = ring_cost(row, bytes);
  Cost across = ring_cost(column, bytes / grid.x);
  along.network_bytes_per_host *= rows_on_host;
  across.network_bytes_per_host *= columns_on_host;
  return along + across;
}

}  // namespace paceline
