// none: gradients travel as they are. Recipes and benchmarks name it like the other codecs. `paceline train` and the
// parameter server pack nothing with it: they send the floats themselves.
#include <cstring>

#include "paceline/codecs/builtin.h"
#include "paceline/kernels/reduce.h"

namespace paceline {
namespace {

class None : public Codec {
 public:
  std::string name() const override { return "none"; }
  bool lossy() const override { return false; }
  std::optional<DType> wire_dtype() const override { return DType::f32; }
  size_t most_bytes(size_t count) const override { return count * sizeof(float); }
  double ratio() const override { return 1; }

  size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const override {
    check_room(values, wire, lost, values.size_bytes());
    if (!values.empty()) std::memcpy(wire.data(), values.data(), values.size_bytes());
    std::ranges::fill(lost, 0.0f);
    return values.size_bytes();
  }

  void decode(std::span<const std::byte> wire, std::span<float> values) const override {
    CHECK_EQ(wire.size(), values.size_bytes());
    if (!values.empty()) std::memcpy(values.data(), wire.data(), wire.size());
  }

  void decode_add(std::span<const std::byte> wire, std::span<float> values) const override {
    CHECK_EQ(wire.size(), values.size_bytes());
    const TensorView from = {const_cast<std::byte*>(wire.data()), values.size(), DType::f32};
    reduce_into(view(values), from, ReduceOp::sum);
  }
};

}  // namespace

std::unique_ptr<Codec> make_none_codec(const CodecOptions&) { return std::make_unique<None>(); }

}  // namespace paceline
