// HalfCodec: gradients as 16-bit numbers, which any all-reduce sums. What fp16 and bf16 have in common.
//
// Not lossy() in the sense of error feedback: rounding to 8 or 11 bits is unbiased and far below the noise of a
// gradient, and sums of halves are rounded on their way too, where nobody could keep the errors.
#pragma once

#include "paceline/codecs/codec.h"

namespace paceline {

struct HalfFormat {
  std::string name;
  HalfWire wire;
  void (*narrow)(uint16_t* halves, const float* floats, size_t count);
  void (*widen)(float* floats, const uint16_t* halves, size_t count);
};

class HalfCodec : public Codec {
 public:
  explicit HalfCodec(HalfFormat format) : format_(std::move(format)) {}

  std::string name() const override { return format_.name; }
  bool lossy() const override { return false; }
  std::optional<DType> wire_dtype() const override { return format_.wire.dtype; }
  std::optional<HalfWire> half_wire() const override { return format_.wire; }
  size_t most_bytes(size_t count) const override { return count * sizeof(uint16_t); }
  double ratio() const override { return 2; }

  size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const override;
  void decode(std::span<const std::byte> wire, std::span<float> values) const override;
  void decode_add(std::span<const std::byte> wire, std::span<float> values) const override;

 private:
  HalfFormat format_;
};

}  // namespace paceline
