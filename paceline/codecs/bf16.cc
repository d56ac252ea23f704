// bf16: half the bytes, with the range of f32 and 8 bits of precision.
#include "paceline/codecs/builtin.h"
#include "paceline/codecs/half_codec.h"
#include "paceline/kernels/half_convert.h"

namespace paceline {

std::unique_ptr<Codec> make_bf16_codec(const CodecOptions&) {
  return std::make_unique<HalfCodec>(
      HalfFormat{"bf16", {DType::bf16, 1}, bf16_from_floats, floats_from_bf16});
}

}  // namespace paceline
