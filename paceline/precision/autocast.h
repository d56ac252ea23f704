// Autocast: while it lives, convolutions and matrix products on this thread compute in 16 bits.
//
//   {
//     const Autocast autocast(device.type(), torch::kBFloat16);
//     logits = model.forward(images);
//   }
//   loss = cross_entropy(logits.to(torch::kFloat32), labels);
//
// Weights stay f32 and are rounded for each use: they are the master weights, and their gradients are f32. Batch
// normalisation takes 16-bit activations, and computes with f32 statistics, gamma and beta. Keep the loss outside.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>

namespace paceline {

class Autocast {
 public:
  // Nothing: everything stays as it is.
  Autocast(torch::DeviceType device, std::optional<torch::ScalarType> type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const torch::DeviceType device_;
  const bool active_;
  bool was_enabled_ = false;
  torch::ScalarType type_before_ = torch::kFloat32;
};

// Of train.precision: "bf16", "f16"; nothing for "f32".
std::optional<torch::ScalarType> autocast_type(const std::string& precision);

}  // namespace paceline
