#include "paceline/gradients/overlap.h"

#include "paceline/core/usable_cores.h"

namespace paceline {

bool cores_are_left(std::span<const RankCores> ranks) {
  for (const RankCores& rank : ranks) {
    int64_t computing = 0;
    for (const RankCores& other : ranks)
      if (other.first == rank.first && other.count == rank.count) computing += other.computing;
    if (computing >= rank.count) return false;
  }
  return true;
}

bool overlap_pays(Group& group, int threads) {
  if (group.topology().hosts() > 1) return true;
  const UsableCores cores = usable_cores();
  RankCores mine = {.first = strictest(cores).of, .count = cores_of(cores), .computing = threads};
  std::vector<RankCores> all(static_cast<size_t>(group.size()));
  constexpr size_t kNumbers = sizeof(RankCores) / sizeof(int64_t);
  group.all_gather({&mine, kNumbers, DType::i64}, {all.data(), kNumbers * all.size(), DType::i64});
  return cores_are_left(all);
}

}  // namespace paceline
