#include "paceline/kernels/elastic.h"

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void exchange(float* __restrict w, float* __restrict x, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) {
    const float d = factor * (x[i] - w[i]);
    w[i] = w[i] + d;
    x[i] = x[i] - d;
  }
}

}  // namespace

void elastic_exchange(float* weights, float* worker_weights, size_t count, float factor) {
  exchange(weights, worker_weights, count, factor);
}

}  // namespace paceline
