#include "paceline/codecs/codec.h"

namespace paceline {

size_t Codec::most_sum_bytes(size_t count, int) const { return most_bytes(count); }

size_t Codec::encode_sum(std::span<const float> sum, std::span<std::byte> wire, std::span<float> lost, int) const {
  return encode(sum, wire, lost);
}

void Codec::check_room(std::span<const float> values, std::span<const std::byte> wire, std::span<const float> lost,
                       size_t most_bytes) const {
  CHECK_TRUE(wire.size() >= most_bytes, "{} of {} elements needs {} bytes, there are {}", name(), values.size(),
             most_bytes, wire.size());
  CHECK_TRUE(lost.empty() || lost.size() == values.size(), "{} of {} elements, and room for {} that are lost", name(),
             values.size(), lost.size());
}

}  // namespace paceline
