// StepCount: "step", how many steps an optimizer has made. One that overflowed is none, and where a kernel updates all
// parameters only the device knows of that: there the kernel counts, and the number lies on the device.
#pragma once

#include "paceline/optim/device_parameters.h"

namespace paceline {

class StepCount {
 public:
  explicit StepCount(const DeviceParameters& on_device)
      : of_kernel_(on_device.zero(torch::kInt64)),
        step_(on_device.has_all() ? of_kernel_ : torch::zeros({}, torch::kInt64)) {}

  // On the host, of a step that is known not to have overflowed: its number, from 1 on. REQUIRES: some parameters are
  // not the kernel's
  int64_t advance() const { return ++*step_.data_ptr<int64_t>(); }

  // For a launch, which counts its step there. Where the host counts, too, both have the same number.
  int64_t* for_kernel() const {
    if (!step_.is_same(of_kernel_)) of_kernel_.copy_(step_);
    return of_kernel_.data_ptr<int64_t>();
  }

  void add_to(Optimizer::State& state) const { state.emplace("step", step_); }

 private:
  torch::Tensor of_kernel_;  // undefined: there is nothing on a device
  torch::Tensor step_;
};

}  // namespace paceline
