// Momentum correction: what error feedback is for sparse codecs under momentum (Lin et al., Deep Gradient Compression,
// 2018). Each rank runs its own momentum before the sum; the optimizer then has none.
//
//   u = m·u + g        the rank's momentum
//   v = v + u          what it owes the others; v is encoded, and what was not sent stays in it
//   where v was sent: u = 0      or an old direction would go on pushing what was just paid
//
// CompressedAllReduce adds its residual v itself: replace_by_momentum(g, u, m), run(g, v), stop_where_sent(u, v).
//
// One pass over each array; elementwise, so the bits do not depend on how callers cut them.
#pragma once

#include <span>

namespace paceline {

// u = m·u + g; g = u. REQUIRES: equal sizes, no overlap, here and below.
void replace_by_momentum(std::span<float> gradient, std::span<float> u, float m);

// `lost` as encode() left it: where it is zero, everything was sent.
void stop_where_sent(std::span<float> u, std::span<const float> lost);

}  // namespace paceline
