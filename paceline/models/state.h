// A model's state: its parameters and buffers by name (torchvision's names), to be saved, loaded and compared.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>

#include "paceline/models/safetensors.h"

namespace paceline {

// All parameters and buffers. They share memory with the module's; gradients do not flow through them.
NamedTensors state_of(const torch::nn::Module& module);

// Copies `state` into the module's tensors, on whatever device they are: all of it, or nothing.
// Throws DataError, beginning with `source` (the file), that lists every tensor which is missing, unexpected (with the
// name that was probably meant), or of another shape or element type.
void load_state(torch::nn::Module& module, const NamedTensors& state, const std::string& source);

// SHA-256 over state_of() in the order of names (bytewise). Each tensor enters as the text "NAME DTYPE [D0,D1,...]\n"
// (dtype as in safetensors.h: "fc.bias F32 [10]\n", a scalar has "[]"), followed by its elements, row-major,
// little-endian.
std::string weights_sha256(const torch::nn::Module& module);

}  // namespace paceline
