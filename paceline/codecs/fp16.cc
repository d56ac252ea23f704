// fp16: half the bytes. Gradients are small: they travel times 1024, which lets magnitudes from 6e-11 to 64 through;
// larger ones become 64 (65504 on the way). A sum over ranks that passes 64 is infinite, and noticed.
#include "paceline/codecs/builtin.h"
#include "paceline/codecs/half_codec.h"
#include "paceline/kernels/half_convert.h"

namespace paceline {

std::unique_ptr<Codec> make_fp16_codec(const CodecOptions&) {
  return std::make_unique<HalfCodec>(
      HalfFormat{"fp16", DType::f16, 1024, 65504.0f / 1024, f16_from_floats, floats_from_f16});
}

}  // namespace paceline
