#include "paceline/kernels/average.h"

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void update(float* __restrict average, const float* __restrict w, size_t count, float keep,
                                float take) {
  for (size_t i = 0; i < count; ++i) average[i] = keep * average[i] + take * w[i];
}

}  // namespace

void average_update(float* average, const float* weights, size_t count, double keep) {
  update(average, weights, count, static_cast<float>(keep), static_cast<float>(1 - keep));
}

}  // namespace paceline
