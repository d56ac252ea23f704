// The first weights, as a pure function of the seed and each tensor's name: neither the order of the layers, nor the
// number of threads, nor the device enters.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/models/model.h"

namespace paceline {

// Convolutions are drawn from a normal distribution whose deviation the scheme decides:
//   kaiming  sqrt(2 / fan_in)              He et al. (2015)
//   xavier   sqrt(2 / (fan_in + fan_out))  Glorot and Bengio (2010)
//   normal   1                             for comparison only
// with fan_in = elements per output channel and fan_out = outputs · kernel area, as torch counts them.
// Linear layers are normal(0, 0.01) in every scheme (as torchvision's VGG and Goyal et al. (2017) for ResNets): the
// first logits are small, and the loss begins near log(classes). Gamma is BatchNorm2d::initial_gamma, all biases and
// beta 0, running statistics those of a standard normal.
//
// By shape, so that modules of torch::nn are covered too: 3 or more dimensions are a convolution, 2 a linear layer, and
// of those with fewer `weight` is a gamma and everything else a bias. Throws UsageError for an unknown scheme.
void initialise(Model& model, const std::string& scheme, uint64_t seed);

}  // namespace paceline
