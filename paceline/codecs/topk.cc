// topk: the largest elements by magnitude, exactly ceil(density · count) of them, with their indices; of equal ones the
// first. In the first epochs more are sent (Lin et al., Deep Gradient Compression, 2018).
//
// The elements are read once: a sample tells a magnitude that somewhat more than the wanted ones have, and the k
// largest are found among these few. Where the sample misleads, or too many are equal, the exact magnitude is found by
// counting, ten times as slow.
#include <algorithm>
#include <cmath>
#include <vector>

#include "paceline/codecs/builtin.h"
#include "paceline/codecs/sparse_codec.h"
#include "paceline/kernels/magnitude.h"
#include "paceline/kernels/select.h"

namespace paceline {
namespace {

constexpr double kFirstDensity = 0.25;  // of the warm-up; a quarter of it in every next epoch

// Every so manieth element makes the sample: enough to tell a hundredth to a tenth of itself, few enough not to take
// longer than the rest. Odd, because tensors repeat themselves at even distances.
size_t sample_stride(size_t count) {
  const size_t sampled = std::clamp<size_t>(count / 64, 1024, 16'384);
  return (std::max<size_t>(count / sampled, 1) - 1) | 1;
}

class TopK : public SparseCodec {
 public:
  explicit TopK(const CodecOptions& options) : options_(options), density_(density_at(0)) {}

  std::string name() const override { return "topk"; }
  size_t most_bytes(size_t count) const override { return sparse_bytes(kept(count), count); }
  double ratio() const override { return std::max(1.0, 1 / (2 * density_)); }
  size_t most_sum_bytes(size_t count, int ranks) const override {
    return sparse_bytes(std::min(count, kept(count) * static_cast<size_t>(ranks)), count);
  }

  void set_epoch(double epoch) override { density_ = density_at(epoch); }

  size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const override {
    check_room(values, wire, lost, most_bytes(values.size()));
    const size_t wanted = kept(values.size());
    if (!goes_with_indices(wanted, values.size())) return write_all(values, wire, lost);

    const Candidates candidates = find_candidates(values, wanted);
    if (candidates.all && candidates.size >= wanted) return write_best(candidates, wanted, values, wire, lost);
    const SparseChoice choice = candidates.all_not_zero ? SparseChoice{0, wanted - candidates.size, wanted}
                                                        // zeros make up the number
                                                        : choose_among(values, wanted);
    const size_t bytes = write_sparse(values, choice, wire, lost);
    forget_infinite(choice.magnitude, lost);
    return bytes;
  }

 private:
  // Elements that may be among the largest: indices_ and values_.
  struct Candidates {
    size_t size = 0;
    bool all = false;           // there was room for all that are as large
    bool all_not_zero = false;  // and these are all that are not zero
  };

  double density_at(double epoch) const {
    const double warm = kFirstDensity * std::pow(0.25, std::floor(std::max(0.0, epoch)));
    return options_.density_warmup ? std::max(options_.density, warm) : options_.density;
  }

  size_t kept(size_t count) const {
    return std::min(count, static_cast<size_t>(std::ceil(density_ * static_cast<double>(count))));
  }

  Candidates find_candidates(std::span<const float> values, size_t wanted) const {
    const size_t stride = sample_stride(values.size());
    sample_.clear();
    for (size_t i = 0; i < values.size(); i += stride) sample_.push_back(values[i]);

    // So many of the sample are expected among the wanted; more by four times their spread are nearly never needed.
    const double expected = static_cast<double>(wanted) / static_cast<double>(stride);
    const auto rank = static_cast<size_t>(expected + 4 * std::sqrt(expected) + 4);
    int32_t least = 1;
    if (rank <= sample_.size()) least = std::max(least, magnitude_at_rank(sample_.data(), sample_.size(), rank));
    const size_t room = std::min(values.size(), 2 * rank * stride + 1024);
    if (indices_.size() < room) {
      indices_.resize(room);
      values_.resize(room);
    }
    const size_t size =
        select_largest(values.data(), values.size(), least, room, room, indices_.data(), values_.data());
    const bool all = size < room || room == values.size();
    return {size, all, all && least == 1};
  }

  static SparseChoice choose_among(std::span<const float> values, size_t wanted) {
    const int32_t magnitude = magnitude_at_rank(values.data(), values.size(), wanted);
    const size_t above = count_above(values.data(), values.size(), magnitude);
    return {magnitude, wanted - above, wanted};
  }

  // The largest of the candidates, which are in the order of their indices.
  size_t write_best(const Candidates& candidates, size_t wanted, std::span<const float> values,
                    std::span<std::byte> wire, std::span<float> lost) const {
    const std::span<const float> found(values_.data(), candidates.size);
    const SparseChoice choice = choose_among(found, wanted);
    const SparseEntries entries = begin_sparse(wire, wanted, values.size());
    select_largest(found.data(), found.size(), choice.magnitude, choice.equal, wanted, entries.indices, entries.values);
    const std::span sent(entries.indices, wanted);
    for (uint32_t& index : sent) index = indices_[index];
    keep_others(values, sent, lost);
    forget_infinite(choice.magnitude, lost);
    return sparse_bytes(wanted, values.size());
  }

  // What is not finite goes first; only if nothing else was sent, some may be left.
  static void forget_infinite(int32_t smallest_sent, std::span<float> lost) {
    if (smallest_sent < kMagnitudeOfInfinity) return;
    for (float& value : lost)
      if (magnitude_of(value) >= kMagnitudeOfInfinity) value = 0;
  }

  CodecOptions options_;
  double density_;
  // Room to work in: it grows with the largest array, and is kept.
  mutable std::vector<float> sample_;
  mutable std::vector<uint32_t> indices_;
  mutable std::vector<float> values_;
};

}  // namespace

std::unique_ptr<Codec> make_topk_codec(const CodecOptions& options) {
  if (!(options.density > 0 && options.density <= 1))
    throw UsageError(fmt::format("the density of topk must be above 0 and at most 1, not {}", options.density));
  return std::make_unique<TopK>(options);
}

}  // namespace paceline
