#include "paceline/models/initialise.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/core/random.h"
#include "paceline/models/layers.h"

namespace paceline {
namespace {

constexpr float kLinearDeviation = 0.01f;
constexpr int64_t kPiecePairs = 1 << 15;  // work is handed to threads in pieces of this many pairs: about 1 ms

// A tensor to be filled with normal numbers: element i is deviation · (number i of the key's sequence).
struct Draw {
  float* elements;
  int64_t count;
  RandomKey key;
  float deviation;

  int64_t pieces() const { return (count + 2 * kPiecePairs - 1) / (2 * kPiecePairs); }

  void fill(int64_t piece) const {
    const int64_t first = piece * kPiecePairs;
    const int64_t last = std::min(first + kPiecePairs, (count + 1) / 2);
    for (int64_t pair = first; pair < last; ++pair) {
      const auto numbers = key.normal_pair(static_cast<uint64_t>(pair));
      elements[2 * pair] = deviation * numbers[0];
      if (2 * pair + 1 < count) elements[2 * pair + 1] = deviation * numbers[1];
    }
  }
};

// Threads of our own: at::parallel_for is serial in code that was not compiled with OpenMP.
void fill_all(const std::vector<Draw>& draws) {
  std::vector<std::pair<const Draw*, int64_t>> pieces;
  for (const Draw& draw : draws) {
    for (int64_t piece = 0; piece < draw.pieces(); ++piece) pieces.emplace_back(&draw, piece);
  }
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) pieces[i].first->fill(pieces[i].second);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < at::get_num_threads(); ++i) others.emplace_back(work);
  work();
}

float convolution_deviation(const std::string& scheme, const torch::Tensor& weight) {
  const double fan_in = static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  const double fan_out = static_cast<double>(weight.numel()) / static_cast<double>(weight.size(1));
  if (scheme == "kaiming") return static_cast<float>(std::sqrt(2 / fan_in));
  if (scheme == "xavier") return static_cast<float>(std::sqrt(2 / (fan_in + fan_out)));
  CHECK_EQ(scheme, std::string("normal"));
  return 1;
}

}  // namespace

void initialise(Model& model, const std::string& scheme, uint64_t seed) {
  if (scheme != "kaiming" && scheme != "xavier" && scheme != "normal") {
    throw UsageError(fmt::format("there is no initialisation '{}' (known: kaiming, xavier, normal)", scheme));
  }
  torch::NoGradGuard no_grad;
  const RandomKey key = RandomKey(seed);
  std::vector<Draw> draws;
  std::vector<std::pair<torch::Tensor, torch::Tensor>>
      copies;  // parameters that cannot be written in place, and their stand-ins
  for (const auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    const torch::Tensor& parameter = item.value();
    if (parameter.dim() < 2) {
      parameter.fill_(name == "weight" || name.ends_with(".weight") ? 1 : 0);
      continue;
    }
    const bool in_place = parameter.is_cpu() && parameter.is_contiguous() && parameter.scalar_type() == torch::kFloat32;
    torch::Tensor target = in_place ? parameter : torch::empty(parameter.sizes(), torch::kFloat32);
    const float deviation = parameter.dim() == 2 ? kLinearDeviation : convolution_deviation(scheme, parameter);
    draws.push_back({target.data_ptr<float>(), target.numel(), key.with(name), deviation});
    if (!in_place) copies.emplace_back(parameter, target);
  }
  fill_all(draws);
  for (auto& [parameter, drawn] : copies) parameter.copy_(drawn);
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* bn = dynamic_cast<BatchNorm2d*>(module.get())) bn->reset();
  }
}

}  // namespace paceline
