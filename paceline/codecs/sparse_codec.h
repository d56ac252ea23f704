// SparseCodec: what codecs have in common that send some elements with their indices (sparse_wire.h). The sum of
// several ranks' is sparse as well: all of it that is not zero is sent, and nothing lost.
#pragma once

#include "paceline/codecs/codec.h"
#include "paceline/codecs/sparse_wire.h"

namespace paceline {

class SparseCodec : public Codec {
 public:
  bool lossy() const override { return true; }
  void decode(std::span<const std::byte> wire, std::span<float> values) const override { read_sparse(wire, values); }
  void decode_add(std::span<const std::byte> wire, std::span<float> values) const override { add_sparse(wire, values); }

  size_t encode_sum(std::span<const float> sum, std::span<std::byte> wire, std::span<float> lost,
                    int ranks) const override;
  bool fixed_sum_length() const override { return false; }
};

}  // namespace paceline
