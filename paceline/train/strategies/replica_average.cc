#include "paceline/train/strategies/replica_average.h"

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/gradients/gradient_place.h"
#include "paceline/models/state.h"

namespace paceline {

ReplicaAverage::ReplicaAverage(Model& model, Optimizer& optimizer, Group& group, const FlatSumOptions& options,
                               Timeline* timeline)
    : model_(model),
      optimizer_(optimizer),
      sum_(group, static_cast<size_t>(parameter_count(model)), options),
      timeline_(timeline) {}

// Asked for each time: an optimizer of two stages has other tensors in the second.
std::vector<torch::Tensor> ReplicaAverage::averaged() const {
  std::vector<torch::Tensor> tensors;
  for (const torch::Tensor& parameter : model_.parameters()) tensors.push_back(parameter.detach());
  for (const auto& [name, tensor] : optimizer_.state())
    if (tensor.scalar_type() == torch::kFloat32) tensors.push_back(tensor);
  return tensors;
}

// Products with whole numbers and one division at the end: what is the same on all ranks stays so but for rounding that
// has no direction. A third as a factor would let everything grow a little with every average.
void ReplicaAverage::run(const Samples& samples, std::span<double> riders) {
  CHECK_GT(samples.all, 0);
  const torch::NoGradGuard no_grad;
  const int64_t begin_ns = clock_.now_ns();
  const std::vector<torch::Tensor> tensors = averaged();
  size_t count = riders.size();
  for (const torch::Tensor& tensor : tensors) count += static_cast<size_t>(tensor.numel());
  if (memory_.bytes() < count * sizeof(float)) memory_ = sum_.allocate(count);
  const TensorView flat = memory_.view(count, DType::f32);

  float* place = flat.as<float>().data();
  for (const torch::Tensor& tensor : tensors) {
    place_in(place, tensor).copy_(tensor).mul_(static_cast<double>(samples.own));
    place += tensor.numel();
  }
  std::ranges::transform(riders, place, [](double rider) { return static_cast<float>(rider); });
  sum_.run(flat);
  place = flat.as<float>().data();
  for (const torch::Tensor& tensor : tensors) {
    tensor.copy_(place_in(place, tensor).div_(static_cast<double>(samples.all)));
    place += tensor.numel();
  }
  std::copy_n(place, riders.size(), riders.begin());

  const int64_t end_ns = clock_.now_ns();
  cost_.busy_ns += end_ns - begin_ns;
  cost_.exposed_ns += end_ns - begin_ns;
  if (timeline_)
    timeline_->add({.name = "average of replicas",
                    .category = "all_reduce",
                    .track = "communication",
                    .begin_ns = begin_ns,
                    .end_ns = end_ns,
                    .arguments = {{"bytes", static_cast<double>(flat.bytes())}}});
}

}  // namespace paceline
