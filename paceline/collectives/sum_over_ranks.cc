#include "paceline/collectives/sum_over_ranks.h"

#include "paceline/collectives/direct_eager.h"
#include "paceline/collectives/recursive_doubling.h"
#include "paceline/collectives/ring.h"

namespace paceline {
namespace {

constexpr size_t kSmallBytes = 64 * 1024;

}  // namespace

void sum_over_ranks(Group& group, TensorView data) {
  group.perform(Verb::all_reduce, data, ReduceOp::sum, -1, [&] {
    if (group.size() == 1) return;
    if (data.bytes() > kSmallBytes) return ring_all_reduce(group, data, ReduceOp::sum);
    if (group.shared_memory() != nullptr) return direct_eager_all_reduce(group, data, ReduceOp::sum);
    recursive_doubling_all_reduce(group, data, ReduceOp::sum);
  });
}

}  // namespace paceline
