// int8: blocks share a scale, max|x| / 127; an element is off by at most half of it. Nearly four times fewer bytes.
//
//   f32 scale per block | int8 per element
#include "paceline/codecs/builtin.h"
#include "paceline/kernels/pack.h"

namespace paceline {
namespace {

class Int8 : public Codec {
 public:
  explicit Int8(size_t block) : block_(block) {}

  std::string name() const override { return "int8"; }
  bool lossy() const override { return true; }
  size_t most_bytes(size_t count) const override { return scale_bytes(count) + count; }
  double ratio() const override { return 4 / (1 + 4 / static_cast<double>(block_)); }

  size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const override {
    const size_t bytes = most_bytes(values.size());
    check_room(values, wire, lost, bytes);
    auto* const packed = reinterpret_cast<int8_t*>(wire.data() + scale_bytes(values.size()));
    pack_int8(values.data(), values.size(), block_, reinterpret_cast<float*>(wire.data()), packed,
              lost.empty() ? nullptr : lost.data());
    return bytes;
  }

  void decode(std::span<const std::byte> wire, std::span<float> values) const override {
    unpack(wire, values, unpack_int8);
  }
  void decode_add(std::span<const std::byte> wire, std::span<float> values) const override {
    unpack(wire, values, unpack_int8_add);
  }

 private:
  size_t scale_bytes(size_t count) const { return (count + block_ - 1) / block_ * sizeof(float); }

  void unpack(std::span<const std::byte> wire, std::span<float> values, decltype(unpack_int8)& kernel) const {
    CHECK_EQ(wire.size(), most_bytes(values.size()));
    const auto* const packed = reinterpret_cast<const int8_t*>(wire.data() + scale_bytes(values.size()));
    kernel(reinterpret_cast<const float*>(wire.data()), packed, values.size(), block_, values.data());
  }

  size_t block_;
};

}  // namespace

std::unique_ptr<Codec> make_int8_codec(const CodecOptions& options) {
  if (options.block < 1) throw UsageError("int8 needs blocks of at least 1 element");
  return std::make_unique<Int8>(options.block);
}

}  // namespace paceline
