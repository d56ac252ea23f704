// Momentum that follows the batch: the noise of SGD goes with rate / (batch · (1 - momentum)) (Smith), so a larger
// batch with a larger momentum trains with the noise of the smaller one.
#pragma once

#include <cstdint>

namespace paceline {

// The momentum that keeps batch · (1 - momentum): 1 - (1 - momentum) · at_batch / batch, where `momentum` is right for
// `at_batch`. A batch so small that it would be negative gets 0. Mikami: 0.9 at 32,768 is 0.9407 at 55,296.
// REQUIRES: 0 <= momentum < 1, batches > 0. The result lies in [0, 1).
double noise_scale_momentum(double momentum, int64_t at_batch, int64_t batch);

}  // namespace paceline
