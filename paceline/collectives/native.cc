#include "paceline/collectives/native.h"

#include <algorithm>

#include "paceline/collectives/halving_doubling.h"
#include "paceline/collectives/recursive_doubling.h"
#include "paceline/collectives/ring.h"

namespace paceline {

Cost native_cost(const Cluster& cluster, double bytes) {
  return std::ranges::min(
      {ring_cost(cluster, bytes), recursive_doubling_cost(cluster, bytes), halving_doubling_cost(cluster, bytes)}, {},
      &Cost::seconds);
}

}  // namespace paceline
