// DeviceParameters: those of an optimizer's parameters that its CUDA kernel updates, all in one launch.
//
// In a CUDA graph: step() during capture records the launch and the addresses of that moment, but no coefficients. A
// step with coefficients of its own is Optimizer::prepare(), then a replay on the same stream. Gradients must stay
// where they were at capture.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "paceline/kernels/on_device.h"
#include "paceline/optim/state_tensors.h"

namespace paceline {

class DeviceParameters {
 public:
  // Taken are those in single precision on one CUDA device (that of the first); in builds without CUDA none. `states`
  // are in the order of the kernel. Not while a graph is being captured.
  DeviceParameters(const std::vector<Parameter>& parameters, const std::vector<const StateTensors*>& states);

  bool empty() const { return members_.empty(); }
  bool has_all() const { return !members_.empty() && members_.size() == parameter_count_; }
  bool contains(size_t parameter) const;
  std::optional<int64_t> capture_stage() const { return has_all() ? std::optional<int64_t>(0) : std::nullopt; }
  bool is_capturing() const;  // the current stream

  // Calls `write`, which hands coefficients to the device; when there is nothing on it, does nothing. Not in a capture.
  void prepare(const std::function<void(const DeviceTable&)>& write) const;

  // Calls `launch` with a table of the gradients there are now (Members::all: without them). `parameters` are those it
  // was made with.
  void update(const std::vector<Parameter>& parameters, const StepCoefficients& coefficients,
              const std::function<void(const DeviceTable&)>& launch,
              ChunkTable::Members members = ChunkTable::Members::with_gradient);

  // Memory on the device, for sums that a kernel makes on the way.
  torch::Tensor scratch_per_chunk(int64_t numbers, torch::Dtype dtype) const;
  torch::Tensor scratch_per_tensor(torch::Dtype dtype) const;
  torch::Tensor zero(torch::Dtype dtype) const;  // one number, which a kernel then changes

 private:
  struct Member {
    size_t parameter;
    DeviceTensor tensor;  // without what may move: weights, gradient, copy
    std::vector<torch::Tensor> states;
  };

  DeviceTable table() const;
  torch::Tensor on_device(int64_t count, torch::Dtype dtype) const;

  size_t parameter_count_;
  torch::Device device_ = torch::kCPU;
  std::vector<Member> members_;
  uint32_t chunk_count_ = 0;
  torch::Tensor tensors_, chunks_, coefficients_;  // on the device
  std::vector<DeviceTensor> written_;              // what tensors_ holds
  bool captured_ = false;                          // a replay may have written tensors_ since: no telling what it holds
};

}  // namespace paceline
