#include "paceline/kernels/adam.h"

#include "paceline/kernels/device_update.h"

namespace paceline {
namespace {

struct AdamUpdate {
  struct Values {
    float scale, decay, shrink, keep1, take1, keep2, take2, root_scale, epsilon, rate;
  };
  struct Memory {
    Values values;
    AdamCoefficients given;
  };
  static constexpr int kStates = 2;  // first, second
  static constexpr bool kBackwards = false;

  __device__ static Values values_of(const AdamCoefficients& given, int64_t t) {
    const AdamCoefficients c = at_step(given, t);
    const auto f = [](double value) { return static_cast<float>(value); };
    return {.scale = f(c.gradient_scale),
            .decay = c.decoupled ? 0 : f(c.weight_decay),
            .shrink = c.decoupled ? f(1 - c.rate * c.weight_decay) : 1,
            .keep1 = f(c.beta1),
            .take1 = f(1 - c.beta1),
            .keep2 = f(c.beta2),
            .take2 = f(1 - c.beta2),
            .root_scale = f(1 / sqrt(c.correction2)),
            .epsilon = f(c.epsilon),
            .rate = f(c.rate / c.correction1)};
  }

  __device__ AdamUpdate(const Values& values, float inverse_scale, bool decayed, uint32_t) : c(values) {
    c.scale *= inverse_scale;
    if (!decayed) {
      c.decay = 0;
      c.shrink = 1;
    }
  }

  __device__ void operator()(float& w, float gradient, float (&state)[2]) const {
    const float g = c.scale * gradient + c.decay * w;
    const float m = c.keep1 * state[0] + c.take1 * g;
    const float v = c.keep2 * state[1] + c.take2 * (g * g);
    state[0] = m;
    state[1] = v;
    w = c.shrink * w - c.rate * (m / (c.root_scale * sqrtf(v) + c.epsilon));
  }

  Values c;
};

}  // namespace

void adam_prepare_on_device(const DeviceTable& table, const AdamCoefficients& c) {
  write_coefficients(table, AdamUpdate::Memory{.values = {}, .given = c});
}

void adam_update_on_device(const DeviceTable& table, int64_t* steps) {
  launch_count<AdamUpdate>("adam, count_step", table, steps);
  launch_update<AdamUpdate>("adam", table);
}

}  // namespace paceline
