// BlockCodec: the elements of a block share a scale. What int8 and onebit have in common; `Kernels` is what differs
// (int8.cc).
//
//   Scale per block | the packed elements, each block's from a new byte on
#pragma once

#include <fmt/format.h>

#include <string>

#include "paceline/codecs/codec.h"
#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {

template <class Kernels>
class BlockCodec : public Codec {
 public:
  explicit BlockCodec(const CodecOptions& options) : block_(options.block) {
    if (block_ < 1) throw UsageError(fmt::format("{} needs blocks of at least 1 element", Kernels::kName));
  }

  std::string name() const override { return Kernels::kName; }
  bool lossy() const override { return true; }
  size_t most_bytes(size_t count) const override {
    return scale_bytes(count) + count / block_ * Kernels::packed_bytes(block_) + Kernels::packed_bytes(count % block_);
  }
  double ratio() const override {
    return static_cast<double>(block_ * sizeof(float)) /
           static_cast<double>(sizeof(Scale) + Kernels::packed_bytes(block_));
  }

  size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const override {
    const size_t bytes = most_bytes(values.size());
    check_room(values, wire, lost, bytes);
    Kernels::pack(values.data(), values.size(), block_, reinterpret_cast<Scale*>(wire.data()),
                  reinterpret_cast<Packed*>(wire.data() + scale_bytes(values.size())),
                  lost.empty() ? nullptr : lost.data());
    return bytes;
  }

  void decode(std::span<const std::byte> wire, std::span<float> values) const override {
    unpack(wire, values, Kernels::unpack);
  }
  void decode_add(std::span<const std::byte> wire, std::span<float> values) const override {
    unpack(wire, values, Kernels::unpack_add);
  }

 private:
  using Scale = typename Kernels::Scale;
  using Packed = typename Kernels::Packed;
  using Unpack = void (*)(const Scale*, const Packed*, size_t count, size_t block, float* values);

  size_t scale_bytes(size_t count) const { return (count + block_ - 1) / block_ * sizeof(Scale); }

  void unpack(std::span<const std::byte> wire, std::span<float> values, Unpack kernel) const {
    CHECK_EQ(wire.size(), most_bytes(values.size()));
    kernel(reinterpret_cast<const Scale*>(wire.data()),
           reinterpret_cast<const Packed*>(wire.data() + scale_bytes(values.size())), values.size(), block_,
           values.data());
  }

  size_t block_;
};

}  // namespace paceline
