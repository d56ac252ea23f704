#include "paceline/gradients/device_buckets.h"

#include <torch/utils.h>

#include <algorithm>

namespace paceline {

DeviceBuckets::DeviceBuckets(Group& group, std::unique_ptr<DeviceCommunicator> communicator,
                             const DeviceAllReduceChoice& choice, const BucketPlan& plan, torch::Device device,
                             std::optional<HalfWire> wire)
    : device_(device),
      side_(device),
      plan_(plan),
      memory_(torch::zeros({static_cast<int64_t>(std::max<size_t>(plan.memory_count(), 1))},
                           torch::TensorOptions(torch::kFloat32).device(device))),
      wire_(wire),
      communicator_(std::move(communicator)),
      all_reduce_(group, *communicator_, choice) {
  for (const Bucket& bucket : plan_.buckets) CHECK_TRUE(!bucket.lone, "a gradient outside of its bucket");
  side_.uses(memory_);
  if (!wire_) return;
  size_t largest = 0;
  for (const Bucket& bucket : plan_.buckets) largest = std::max(largest, bucket.count);
  halves_ = torch::empty({static_cast<int64_t>(largest)},
                         memory_.options().dtype(wire_->dtype == DType::f16 ? torch::kFloat16 : torch::kBFloat16));
  side_.uses(halves_);
}

torch::Tensor DeviceBuckets::place(size_t bucket, size_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) const {
  const torch::NoGradGuard no_grad;
  return memory_.as_strided(sizes, strides, static_cast<int64_t>(plan_.buckets[bucket].begin + offset));
}

TensorView DeviceBuckets::view_of(const torch::Tensor& elements, DType dtype) const {
  return {.data = elements.data_ptr(),
          .count = static_cast<size_t>(elements.numel()),
          .dtype = dtype,
          .device = device_.is_cpu() ? DeviceKind::cpu : DeviceKind::cuda,
          .stream = side_.native()};
}

void DeviceBuckets::sum(const Bucket& bucket) {
  const auto count = static_cast<int64_t>(bucket.count);
  const torch::Tensor values = memory_.narrow(0, static_cast<int64_t>(bucket.begin), count);
  if (!wire_) return all_reduce_.run(view_of(values, DType::f32), ReduceOp::sum);
  const torch::NoGradGuard no_grad;
  const torch::Tensor halves = halves_.narrow(0, 0, count);
  const bool enlarged = wire_->scale != 1;
  side_.make_current([&] {
    if (enlarged) values.mul_(wire_->scale);
    halves.copy_(values);
  });
  all_reduce_.run(view_of(halves, wire_->dtype), ReduceOp::sum);
  side_.make_current([&] {
    values.copy_(halves);
    if (enlarged) values.mul_(1 / wire_->scale);
  });
}

void DeviceBuckets::begin() {
  if (left_ > 0) side_.hold_current();
  left_ = 0;
}

void DeviceBuckets::leave_up_to(size_t bucket) {
  if (left_ >= bucket) return;
  side_.follow_current();
  for (; left_ < bucket; ++left_) sum(plan_.buckets[left_]);
}

void DeviceBuckets::finish() {
  CHECK_EQ(left_, plan_.buckets.size());
  side_.hold_current();
  left_ = 0;
}

}  // namespace paceline
