// onebit: the sign of each element; blocks share what the signs stand for, the mean of their positive elements and that
// of the others (Seide et al., 2014). 25 times fewer bytes; useless without error feedback.
//
//   two f32 per block | one bit per element, each block's from a new byte on
#include "paceline/codecs/block_codec.h"
#include "paceline/codecs/builtin.h"
#include "paceline/kernels/pack.h"

namespace paceline {
namespace {

struct SignKernels {
  static constexpr const char* kName = "onebit";
  using Scale = SignScales;
  using Packed = uint8_t;
  static constexpr size_t packed_bytes(size_t elements) { return bytes_of_signs(elements); }
  static constexpr auto pack = pack_signs;
  static constexpr auto unpack = unpack_signs;
  static constexpr auto unpack_add = unpack_signs_add;
};

}  // namespace

std::unique_ptr<Codec> make_onebit_codec(const CodecOptions& options) {
  return std::make_unique<BlockCodec<SignKernels>>(options);
}

}  // namespace paceline
