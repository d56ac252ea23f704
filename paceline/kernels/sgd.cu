#include "paceline/kernels/sgd.h"

#include "paceline/kernels/device_update.h"

namespace paceline {
namespace {

struct SgdUpdate {
  using Values = SgdCoefficients;
  static constexpr int kStates = 1;
  static constexpr bool kBackwards = false;

  __device__ SgdUpdate(const Values& c, float inverse_scale, bool decayed, uint32_t)
      : rate(c.rate),
        momentum(c.momentum),
        decay(decayed ? c.weight_decay : 0),
        scale(c.gradient_scale * inverse_scale),
        nesterov(c.nesterov) {}

  __device__ void operator()(float& w, float gradient, float (&state)[1]) const {
    const float g = scale * gradient + decay * w;
    const float u = momentum * state[0] + g;
    state[0] = u;
    w = w - rate * (nesterov ? g + momentum * u : u);
  }

  float rate, momentum, decay, scale;
  bool nesterov;
};

}  // namespace

void sgd_prepare_on_device(const DeviceTable& table, const SgdCoefficients& c) { write_coefficients(table, c); }

void sgd_update_on_device(const DeviceTable& table) { launch_update<SgdUpdate>("sgd", table); }

}  // namespace paceline
