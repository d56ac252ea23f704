#include "paceline/sync/drop_worker.h"

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

// Shares are written as decimals: (1 - 0.7)·10 is a little more than 3 in binary, and must not become 4.
constexpr double kRounding = 1e-9;

int kept(int party, double drop_share) {
  return std::max(1, static_cast<int>(std::ceil((1 - drop_share) * party - kRounding)));
}

}  // namespace

DropWorkerPolicy::DropWorkerPolicy(const SyncSettings& settings) : RoundsPolicy("drop_worker", settings, "drop") {}

int DropWorkerPolicy::k() const { return kept(round().party, settings().drop_share); }

bool DropWorkerPolicy::complete(const RoundSoFar& round) const {
  return round.gradients >= kept(round.party, settings().drop_share);
}

}  // namespace paceline
