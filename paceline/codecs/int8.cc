// int8: blocks share a scale, max|x| / 127; an element is off by at most half of it. Nearly four times fewer bytes.
//
//   f32 scale per block | int8 per element
#include "paceline/codecs/block_codec.h"
#include "paceline/codecs/builtin.h"
#include "paceline/kernels/pack.h"

namespace paceline {
namespace {

struct Int8Kernels {
  static constexpr const char* kName = "int8";
  using Scale = float;
  using Packed = int8_t;
  static constexpr size_t packed_bytes(size_t elements) { return elements; }
  static constexpr auto pack = pack_int8;
  static constexpr auto unpack = unpack_int8;
  static constexpr auto unpack_add = unpack_int8_add;
};

}  // namespace

std::unique_ptr<Codec> make_int8_codec(const CodecOptions& options) {
  return std::make_unique<BlockCodec<Int8Kernels>>(options);
}

}  // namespace paceline
