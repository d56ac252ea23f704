#include "paceline/gradients/bucket_sum.h"

#include <algorithm>

#include "paceline/codecs/error_feedback.h"

namespace paceline {
namespace {

bool all_finite(TensorView f16) {
  constexpr uint16_t kExponent = 0x7c00;
  const auto* const halves = static_cast<const uint16_t*>(f16.data);
  unsigned infinite = 0;
  for (size_t i = 0; i < f16.count; ++i) infinite |= (halves[i] & kExponent) == kExponent;
  return infinite == 0;
}

}  // namespace

BucketSum::BucketSum(Group& group, AllReduce& all_reduce, std::vector<size_t> counts, BucketSumOptions options)
    : group_(group), all_reduce_(all_reduce), options_(std::move(options)) {
  const Codec* const codec = options_.codec.get();
  if (codec == nullptr) return;
  if (const auto dtype = codec->wire_dtype()) {
    const size_t largest = counts.empty() ? 0 : std::ranges::max(counts);
    if (*dtype != DType::f32) wire_ = group.allocate(largest * size_of(*dtype));
    return;
  }
  compressed_ = std::make_unique<CompressedAllReduce>(group, *codec);
  for (const size_t count : counts) {
    residuals_.emplace_back(options_.error_feedback && codec->lossy() ? count : 0);
    momenta_.emplace_back(options_.momentum_correction > 0 ? count : 0);
  }
}

void BucketSum::run(size_t bucket, TensorView data) {
  if (compressed_) return sum_packed(bucket, data);
  if (wire_.bytes() > 0) return sum_elementwise(data);
  all_reduce_.run(data, ReduceOp::sum);
}

void BucketSum::sum_elementwise(TensorView data) {
  const Codec& codec = *options_.codec;
  const TensorView wire = wire_.view(data.count, *codec.wire_dtype());
  const std::span<std::byte> bytes(static_cast<std::byte*>(wire.data), wire.bytes());
  codec.encode(data.as<float>(), bytes, {});
  all_reduce_.run(wire, ReduceOp::sum);
  if (wire.dtype == DType::f16 && !codec.half_wire()->scaled && !all_finite(wire))
    return all_reduce_.run(data, ReduceOp::sum);
  codec.decode(bytes, data.as<float>());
}

void BucketSum::sum_packed(size_t bucket, TensorView data) {
  std::vector<float>& residual = residuals_[bucket];
  std::vector<float>& momentum = momenta_[bucket];
  if (momentum.empty()) return compressed_->run(data, residual);
  replace_by_momentum(data.as<float>(), momentum, static_cast<float>(options_.momentum_correction));
  compressed_->run(data, residual);
  stop_where_sent(momentum, residual);
}

}  // namespace paceline
