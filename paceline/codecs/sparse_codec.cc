#include "paceline/codecs/sparse_codec.h"

#include "paceline/kernels/select.h"

namespace paceline {

size_t SparseCodec::encode_sum(std::span<const float> sum, std::span<std::byte> wire, std::span<float> lost,
                               int ranks) const {
  const size_t entries = count_above(sum.data(), sum.size(), 0);
  const size_t bytes = sparse_bytes(entries, sum.size());
  CHECK_LE(bytes, most_sum_bytes(sum.size(), ranks));
  check_room(sum, wire, lost, bytes);
  return write_sparse(sum, {.magnitude = 0, .equal = 0, .entries = entries}, wire, lost);
}

}  // namespace paceline
