#include "paceline/optim/chunks.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "paceline/optim/gradient_norm.h"

namespace paceline {

ChunkTable::ChunkTable(const std::vector<Parameter>& parameters, Members members) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& weights = parameters[i].tensor;
    torch::Tensor gradient;
    if (members == Members::with_gradient) {
      gradient = gradient_of(parameters[i]);
      if (!gradient.defined()) continue;
      gradient = with_layout_of(weights, gradient.to(weights.scalar_type()));
    }
    if (!weights.is_cpu() || weights.scalar_type() != torch::kFloat32) {
      others_.push_back({i, weights, gradient});
      continue;
    }
    gradients_.push_back(gradient);
    float* const w = weights.data_ptr<float>();
    const float* const g = gradient.defined() ? gradient.const_data_ptr<float>() : nullptr;
    for (int64_t begin = 0; begin < weights.numel(); begin += kChunkElements) {
      const int64_t count = std::min(kChunkElements, weights.numel() - begin);
      chunks_.push_back({.index = chunks_.size(),
                         .parameter = i,
                         .begin = begin,
                         .count = static_cast<size_t>(count),
                         .before = elements_,
                         .weights = w + begin,
                         .gradient = g != nullptr ? g + begin : nullptr});
      elements_ += count;
    }
  }
}

void ChunkTable::for_each(const std::function<void(const Chunk&)>& visit) const {
  for_each_run([&](std::span<const Chunk> run) {
    for (const Chunk& chunk : run) visit(chunk);
  });
}

// Shared out by elements, not by chunks: those of biases and batch normalisation are small and come in crowds.
void ChunkTable::for_each_run(const std::function<void(std::span<const Chunk>)>& visit) const {
  at::parallel_for(0, elements_, kChunkElements, [&](int64_t begin, int64_t end) {
    const auto first = std::ranges::lower_bound(chunks_, begin, {}, &Chunk::before);
    visit({first, std::ranges::lower_bound(first, chunks_.end(), end, {}, &Chunk::before)});
  });
}

}  // namespace paceline
