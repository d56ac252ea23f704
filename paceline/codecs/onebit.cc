// onebit: the sign of each element; blocks share what the signs stand for, the mean of their positive elements and that
// of the others (Seide et al., 2014). 25 times fewer bytes; useless without error feedback.
//
//   two f32 per block | one bit per element, each block's from a new byte on
#include "paceline/codecs/builtin.h"
#include "paceline/kernels/pack.h"

namespace paceline {
namespace {

class OneBit : public Codec {
 public:
  explicit OneBit(size_t block) : block_(block) {}

  std::string name() const override { return "onebit"; }
  bool lossy() const override { return true; }
  size_t most_bytes(size_t count) const override {
    return scale_bytes(count) + count / block_ * bytes_of_signs(block_) + bytes_of_signs(count % block_);
  }
  double ratio() const override {
    return 4 * static_cast<double>(block_) / static_cast<double>(sizeof(SignScales) + bytes_of_signs(block_));
  }

  size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const override {
    const size_t bytes = most_bytes(values.size());
    check_room(values, wire, lost, bytes);
    auto* const signs = reinterpret_cast<uint8_t*>(wire.data() + scale_bytes(values.size()));
    pack_signs(values.data(), values.size(), block_, reinterpret_cast<SignScales*>(wire.data()), signs,
               lost.empty() ? nullptr : lost.data());
    return bytes;
  }

  void decode(std::span<const std::byte> wire, std::span<float> values) const override {
    unpack(wire, values, unpack_signs);
  }
  void decode_add(std::span<const std::byte> wire, std::span<float> values) const override {
    unpack(wire, values, unpack_signs_add);
  }

 private:
  size_t scale_bytes(size_t count) const { return (count + block_ - 1) / block_ * sizeof(SignScales); }

  void unpack(std::span<const std::byte> wire, std::span<float> values, decltype(unpack_signs)& kernel) const {
    CHECK_EQ(wire.size(), most_bytes(values.size()));
    const auto* const signs = reinterpret_cast<const uint8_t*>(wire.data() + scale_bytes(values.size()));
    kernel(reinterpret_cast<const SignScales*>(wire.data()), signs, values.size(), block_, values.data());
  }

  size_t block_;
};

}  // namespace

std::unique_ptr<Codec> make_onebit_codec(const CodecOptions& options) {
  if (options.block < 1) throw UsageError("onebit needs blocks of at least 1 element");
  return std::make_unique<OneBit>(options.block);
}

}  // namespace paceline
