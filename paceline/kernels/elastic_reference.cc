#include "paceline/kernels/elastic.h"

namespace paceline {

void elastic_exchange_reference(float* weights, float* worker_weights, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) {
    const float d = factor * (worker_weights[i] - weights[i]);
    weights[i] = weights[i] + d;
    worker_weights[i] = worker_weights[i] - d;
  }
}

}  // namespace paceline
