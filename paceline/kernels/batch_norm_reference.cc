#include <cmath>
#include <vector>

#include "paceline/kernels/batch_norm.h"

namespace paceline {

void batch_norm_forward_reference(const BatchNormForward& pass) {
  const int64_t rows = pass.shape.rows, channels = pass.shape.channels;
  const auto* const x = static_cast<const float*>(pass.input);
  const auto* const residual = static_cast<const float*>(pass.residual);
  auto* const out = static_cast<float*>(pass.output);
  float* const mean = pass.statistics + BatchNormStatistics::mean * channels;
  float* const inverse_deviation = pass.statistics + BatchNormStatistics::inverse_deviation * channels;
  float* const scale = pass.statistics + BatchNormStatistics::scale * channels;
  float* const beta = pass.statistics + BatchNormStatistics::beta * channels;

  std::vector<double> sum(channels), squares(channels);
  for (int64_t i = 0; i < rows * channels; ++i) sum[i % channels] += x[i];
  const auto count = static_cast<double>(rows);
  for (int64_t i = 0; i < rows * channels; ++i) {
    const double apart = x[i] - sum[i % channels] / count;
    squares[i % channels] += apart * apart;
  }
  for (int64_t c = 0; c < channels; ++c) {
    mean[c] = static_cast<float>(sum[c] / count);
    inverse_deviation[c] = static_cast<float>(1 / std::sqrt(squares[c] / count + pass.epsilon));
    scale[c] = pass.gamma[c] * inverse_deviation[c];
    beta[c] = pass.beta[c];
    const auto unbiased = static_cast<float>(squares[c] / (count - 1));
    pass.running_mean[c] = (1 - pass.momentum) * pass.running_mean[c] + pass.momentum * mean[c];
    pass.running_variance[c] = (1 - pass.momentum) * pass.running_variance[c] + pass.momentum * unbiased;
  }
  if (pass.batches != nullptr) ++*pass.batches;

  for (int64_t i = 0; i < rows * channels; ++i) {
    const int64_t c = i % channels;
    const float normalised = std::fma(x[i] - mean[c], scale[c], beta[c]);
    const float value = residual != nullptr ? normalised + residual[i] : normalised;
    out[i] = pass.relu && value <= 0 ? 0 : value;
  }
}

void batch_norm_backward_reference(const BatchNormBackward& pass) {
  const int64_t rows = pass.shape.rows, channels = pass.shape.channels;
  const auto* const x = static_cast<const float*>(pass.input);
  const auto* const out = static_cast<const float*>(pass.output);
  const auto* const gradient = static_cast<const float*>(pass.gradient);
  auto* const masked_gradient = static_cast<float*>(pass.masked_gradient);
  auto* const input_gradient = static_cast<float*>(pass.input_gradient);
  const float* const mean = pass.statistics + BatchNormStatistics::mean * channels;
  const float* const inverse_deviation = pass.statistics + BatchNormStatistics::inverse_deviation * channels;
  const float* const scale = pass.statistics + BatchNormStatistics::scale * channels;
  const float* const beta = pass.statistics + BatchNormStatistics::beta * channels;
  const auto passed = [&](int64_t i) {
    if (!pass.relu) return gradient[i];
    const int64_t c = i % channels;
    const float value = masked_gradient != nullptr ? out[i] : std::fma(x[i] - mean[c], scale[c], beta[c]);
    return value <= 0 ? 0 : gradient[i];
  };

  std::vector<double> sum(channels), products(channels);
  for (int64_t i = 0; i < rows * channels; ++i) {
    const int64_t c = i % channels;
    const float g = passed(i);
    sum[c] += g;
    products[c] += static_cast<double>(g) * (x[i] - mean[c]) * inverse_deviation[c];
    if (masked_gradient != nullptr) masked_gradient[i] = g;
  }
  for (int64_t c = 0; c < channels; ++c) {
    pass.beta_gradient[c] = static_cast<float>(sum[c]);
    pass.gamma_gradient[c] = static_cast<float>(products[c]);
  }
  const auto count = static_cast<double>(rows);
  for (int64_t i = 0; i < rows * channels; ++i) {
    const int64_t c = i % channels;
    const double normalised = static_cast<double>(x[i] - mean[c]) * inverse_deviation[c];
    input_gradient[i] =
        static_cast<float>(scale[c] * (passed(i) - sum[c] / count - normalised * (products[c] / count)));
  }
}

}  // namespace paceline
