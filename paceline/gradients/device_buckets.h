// DeviceBuckets: buckets of gradients in the memory of a device, and their sums over the ranks.
//
// All buckets lie one after the other in one allocation, as the plan says. A bucket that is full leaves: a side stream
// waits for what computed it and sums it there, while the current stream goes on with backward. In the end the current
// stream waits for the side stream. The host never waits for the device: it may be steps ahead.
//
// Where gradients travel as 16-bit numbers, the side stream rounds a bucket before its sum and widens it behind.
#pragma once

#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/collectives/bucket_plan.h"
#include "paceline/collectives/device_all_reduce.h"
#include "paceline/comm/device_communicator.h"
#include "paceline/gradients/side_stream.h"

namespace paceline {

class DeviceBuckets {
 public:
  // Every rank calls it, with the same plan, in which no parameter is alone. `communicator` has the ranks of the group,
  // which must outlive this.
  DeviceBuckets(Group& group, std::unique_ptr<DeviceCommunicator> communicator, const DeviceAllReduceChoice& choice,
                const BucketPlan& plan, torch::Device device, std::optional<HalfWire> wire = {});

  // Part of a bucket as a tensor, from element `offset` on. It holds the memory: it may outlive this.
  torch::Tensor place(size_t bucket, size_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) const;

  // A step begins. What an earlier one, that failed, has left on its way is over before anything is written.
  void begin();
  // All buckets before this one are full, in the order of the current stream. Every rank calls it until all have left;
  // how many leave in one call does not matter.
  void leave_up_to(size_t bucket);
  // All have left. What comes on the current stream next sees the sums.
  void finish();

  std::string remark() const { return communicator_->remark(); }

 private:
  void sum(const Bucket& bucket);
  TensorView view_of(const torch::Tensor& elements, DType dtype) const;

  torch::Device device_;
  SideStream side_;
  BucketPlan plan_;
  torch::Tensor memory_;
  std::optional<HalfWire> wire_;
  torch::Tensor halves_;  // of the largest bucket, on its way
  std::unique_ptr<DeviceCommunicator> communicator_;
  DeviceAllReduce all_reduce_;
  size_t left_ = 0;
};

}  // namespace paceline
