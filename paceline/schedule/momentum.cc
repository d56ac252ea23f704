#include "paceline/schedule/momentum.h"

#include <algorithm>
#include <cmath>

#include "paceline/core/check.h"

namespace paceline {

double noise_scale_momentum(double momentum, int64_t at_batch, int64_t batch) {
  CHECK_GE(momentum, 0.0);
  CHECK_LT(momentum, 1.0);
  CHECK_GT(at_batch, 0);
  CHECK_GT(batch, 0);
  if (batch == at_batch) return momentum;  // exactly: 1 - (1 - 0.9) is not 0.9
  const double kept = 1 - (1 - momentum) * (static_cast<double>(at_batch) / static_cast<double>(batch));
  return std::clamp(kept, 0.0, std::nextafter(1.0, 0.0));  // 1 would never forget a gradient
}

}  // namespace paceline
