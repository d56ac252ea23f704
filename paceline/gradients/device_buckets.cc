#include "paceline/gradients/device_buckets.h"

#include <torch/utils.h>

#include <algorithm>

namespace paceline {

DeviceBuckets::DeviceBuckets(Group& group, std::unique_ptr<DeviceCommunicator> communicator,
                             const DeviceAllReduceChoice& choice, const BucketPlan& plan, torch::Device device)
    : device_(device),
      side_(device),
      plan_(plan),
      memory_(torch::zeros({static_cast<int64_t>(std::max<size_t>(plan.memory_count(), 1))},
                           torch::TensorOptions(torch::kFloat32).device(device))),
      communicator_(std::move(communicator)),
      all_reduce_(group, *communicator_, choice) {
  for (const Bucket& bucket : plan_.buckets) CHECK_TRUE(!bucket.lone, "a gradient outside of its bucket");
  side_.uses(memory_);
}

torch::Tensor DeviceBuckets::place(size_t bucket, size_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) const {
  const torch::NoGradGuard no_grad;
  return memory_.as_strided(sizes, strides, static_cast<int64_t>(plan_.buckets[bucket].begin + offset));
}

TensorView DeviceBuckets::view_of(size_t bucket) const {
  const Bucket& planned = plan_.buckets[bucket];
  return {.data = memory_.data_ptr<float>() + planned.begin,
          .count = planned.count,
          .dtype = DType::f32,
          .device = device_.is_cpu() ? DeviceKind::cpu : DeviceKind::cuda,
          .stream = side_.native()};
}

void DeviceBuckets::begin() {
  if (left_ > 0) side_.hold_current();
  left_ = 0;
}

void DeviceBuckets::leave_up_to(size_t bucket) {
  if (left_ >= bucket) return;
  side_.follow_current();
  for (; left_ < bucket; ++left_) all_reduce_.run(view_of(left_), ReduceOp::sum);
}

void DeviceBuckets::finish() {
  CHECK_EQ(left_, plan_.buckets.size());
  side_.hold_current();
  left_ = 0;
}

}  // namespace paceline
