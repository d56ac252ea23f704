// fp16: half the bytes. A number of this type is exact to 11 bits from 6e-5 to 65504, and to 6e-8 below.
//
// Each rank's gradient is divided by the whole batch before it travels, so the more ranks there are, the smaller are the
// addends, while their sum stays what it was. Both have to fit: they travel times 1024 √ranks, rounded down to a power of
// two. Of 2,048 ranks addends from 2e-12 on count, and sums up to 2. What does not fit becomes infinite, never a smaller
// number, so that whoever looks at the sum notices, and can send it another way (gradients/bucket_sum.h).
//
// Gradients with a loss scale have been multiplied by far more already: they travel times √ranks, and the steps of
// sums that do not fit are skipped.
#include <bit>
#include <cmath>

#include "paceline/codecs/builtin.h"
#include "paceline/codecs/half_codec.h"
#include "paceline/core/check.h"
#include "paceline/kernels/half_convert.h"

namespace paceline {

std::unique_ptr<Codec> make_fp16_codec(const CodecOptions& options) {
  CHECK_GE(options.ranks, 1);
  const int root = (std::bit_width(static_cast<unsigned>(options.ranks)) - 1) / 2;  // its exponent of two
  const HalfWire wire = {DType::f16, std::ldexp(options.scaled ? 1.0f : 1024.0f, root), options.scaled};
  return std::make_unique<HalfCodec>(HalfFormat{"fp16", wire, f16_from_floats, floats_from_f16});
}

}  // namespace paceline
