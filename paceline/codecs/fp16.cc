// fp16: half the bytes. Gradients are small: they travel times 1024, which lets magnitudes from 6e-11 to 64 through;
// larger ones become 64 (65504 on the way). A sum over ranks that passes 64 is infinite, and noticed.
//
// Gradients with a loss scale have been multiplied already: they travel as they are, and what passes 65504 on one rank
// is infinite at once. To cut it off would hide the overflow from those who skip such steps.
#include <limits>

#include "paceline/codecs/builtin.h"
#include "paceline/codecs/half_codec.h"
#include "paceline/kernels/half_convert.h"

namespace paceline {

std::unique_ptr<Codec> make_fp16_codec(const CodecOptions& options) {
  const HalfWire enlarged = {DType::f16, 1024, 65504.0f / 1024};
  const HalfWire as_it_is = {DType::f16, 1, std::numeric_limits<float>::infinity()};
  return std::make_unique<HalfCodec>(
      HalfFormat{"fp16", options.scaled ? as_it_is : enlarged, f16_from_floats, floats_from_f16});
}

}  // namespace paceline
