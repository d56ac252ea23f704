#include "paceline/codecs/half_codec.h"

#include "paceline/kernels/dispatch.h"
#include "paceline/kernels/magnitude.h"

namespace paceline {
namespace {

// Elements that are scaled and converted at a time: they stay in the first-level cache in between.
constexpr size_t kBlock = 1024;

PACELINE_VECTORISED void multiply(float* out, const float* in, size_t count, float factor) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) out[i] = in[i] * factor;
}

PACELINE_VECTORISED void add_scaled_down(float* __restrict sum, const float* __restrict in, size_t count,
                                         float factor) {
  for (size_t i = 0; i < count; ++i) sum[i] += in[i] * factor;
}

PACELINE_VECTORISED void subtract_scaled_down(float* lost, const float* values, const float* __restrict decoded,
                                              size_t count, float factor) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const float difference = values[i] - decoded[i] * factor;
    lost[i] = magnitude_of(difference) < kMagnitudeOfInfinity ? difference : 0.0f;
  }
}

}  // namespace

size_t HalfCodec::encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const {
  check_room(values, wire, lost, most_bytes(values.size()));
  auto* const halves = reinterpret_cast<uint16_t*>(wire.data());
  alignas(64) float scaled[kBlock];
  for (size_t at = 0; at < values.size(); at += kBlock) {
    const size_t count = std::min(kBlock, values.size() - at);
    const float* const block = values.data() + at;
    if (format_.wire.scale == 1) {
      format_.narrow(halves + at, block, count);
    } else {
      multiply(scaled, block, count, format_.wire.scale);
      format_.narrow(halves + at, scaled, count);
    }
    if (lost.empty()) continue;
    format_.widen(scaled, halves + at, count);
    subtract_scaled_down(lost.data() + at, block, scaled, count, 1 / format_.wire.scale);
  }
  return most_bytes(values.size());
}

void HalfCodec::decode(std::span<const std::byte> wire, std::span<float> values) const {
  CHECK_EQ(wire.size(), most_bytes(values.size()));
  const auto* const halves = reinterpret_cast<const uint16_t*>(wire.data());
  for (size_t at = 0; at < values.size(); at += kBlock) {
    const size_t count = std::min(kBlock, values.size() - at);
    float* const block = values.data() + at;
    format_.widen(block, halves + at, count);
    if (format_.wire.scale != 1) multiply(block, block, count, 1 / format_.wire.scale);
  }
}

void HalfCodec::decode_add(std::span<const std::byte> wire, std::span<float> values) const {
  CHECK_EQ(wire.size(), most_bytes(values.size()));
  const auto* const halves = reinterpret_cast<const uint16_t*>(wire.data());
  alignas(64) float decoded[kBlock];
  for (size_t at = 0; at < values.size(); at += kBlock) {
    const size_t count = std::min(kBlock, values.size() - at);
    format_.widen(decoded, halves + at, count);
    add_scaled_down(values.data() + at, decoded, count, 1 / format_.wire.scale);
  }
}

}  // namespace paceline
