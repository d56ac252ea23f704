#include "paceline/kernels/running_mean.h"

namespace paceline {

void running_mean_add_reference(float* mean, const float* gradient, size_t count, float share) {
  for (size_t i = 0; i < count; ++i) mean[i] = mean[i] + share * (gradient[i] - mean[i]);
}

MeanNoise running_mean_add_noise_reference(float* mean, const float* gradient, size_t count, float share) {
  MeanNoise noise;
  for (size_t i = 0; i < count; ++i) {
    const float before = gradient[i] - mean[i];
    mean[i] = mean[i] + share * before;
    noise.mean_norm2 += static_cast<double>(mean[i]) * mean[i];
    noise.spread += static_cast<double>(before) * (gradient[i] - mean[i]);
  }
  return noise;
}

void running_mean_add_late_reference(float* mean, float* momentum, const float* gradient, size_t count, float share,
                                     float factor) {
  for (size_t i = 0; i < count; ++i) {
    const float d = share * (gradient[i] - mean[i]);
    mean[i] = mean[i] + d;
    momentum[i] = momentum[i] + factor * d;
  }
}

}  // namespace paceline
