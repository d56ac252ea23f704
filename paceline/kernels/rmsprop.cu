#include "paceline/kernels/rmsprop.h"

#include "paceline/kernels/device_update.h"

namespace paceline {
namespace {

struct RmspropUpdate {
  struct Values {
    float scale, decay, keep, take, epsilon, momentum, rate;
  };
  static constexpr int kStates = 2;  // second, momentum
  static constexpr bool kBackwards = false;

  __device__ RmspropUpdate(const Values& values, float inverse_scale, bool decayed, uint32_t) : c(values) {
    c.scale *= inverse_scale;
    if (!decayed) c.decay = 0;
  }

  __device__ void operator()(float& w, float gradient, float (&state)[2]) const {
    const float g = c.scale * gradient + c.decay * w;
    const float v = c.keep * state[0] + c.take * (g * g);
    const float u = c.momentum * state[1] + g / (sqrtf(v) + c.epsilon);
    state[0] = v;
    state[1] = u;
    w = w - c.rate * u;
  }

  Values c;
};

}  // namespace

void rmsprop_prepare_on_device(const DeviceTable& table, const RmspropCoefficients& c) {
  const auto f = [](double value) { return static_cast<float>(value); };
  write_coefficients(table, RmspropUpdate::Values{.scale = f(c.gradient_scale),
                                                  .decay = f(c.weight_decay),
                                                  .keep = f(c.alpha),
                                                  .take = f(1 - c.alpha),
                                                  .epsilon = f(c.epsilon),
                                                  .momentum = f(c.momentum),
                                                  .rate = f(c.rate)});
}

void rmsprop_update_on_device(const DeviceTable& table) { launch_update<RmspropUpdate>("rmsprop", table); }

}  // namespace paceline
