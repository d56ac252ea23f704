// threshold: elements of at least a given magnitude, with their indices. How many bytes that makes depends on the
// gradients; what it never is, is more than they have.
#include <cmath>

#include "paceline/codecs/builtin.h"
#include "paceline/codecs/sparse_codec.h"
#include "paceline/kernels/magnitude.h"
#include "paceline/kernels/select.h"

namespace paceline {
namespace {

class Threshold : public SparseCodec {
 public:
  explicit Threshold(float threshold) : magnitude_(magnitude_of(threshold)) {}

  std::string name() const override { return "threshold"; }
  size_t most_bytes(size_t count) const override { return sparse_bytes(count, count); }
  bool fixed_length() const override { return false; }
  double ratio() const override { return 1; }  // what it can promise

  size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const override {
    check_room(values, wire, lost, most_bytes(values.size()));
    const size_t entries = count_at_least(values.data(), values.size(), magnitude_);
    return write_sparse(values, {magnitude_, entries, entries}, wire, lost);
  }

 private:
  int32_t magnitude_;
};

}  // namespace

std::unique_ptr<Codec> make_threshold_codec(const CodecOptions& options) {
  if (!(options.threshold >= 0) || std::isinf(options.threshold))
    throw UsageError(fmt::format("the threshold must be a number of at least 0, not {}", options.threshold));
  return std::make_unique<Threshold>(static_cast<float>(options.threshold));
}

}  // namespace paceline
