// A model's forward pass in the precision of a recipe.
#pragma once

#include <torch/types.h>

#include <string>

#include "paceline/models/model.h"

namespace paceline {

// Logits in f32, whatever the model computes in: the loss is for numbers with a long range. `precision` is
// train.precision.
torch::Tensor logits_of(Model& model, const torch::Tensor& images, const std::string& precision);

}  // namespace paceline
