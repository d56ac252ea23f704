#include "paceline/kernels/adabound.h"

#include "paceline/kernels/device_update.h"

namespace paceline {
namespace {

struct AdaboundUpdate {
  struct Values {
    float scale, decay, keep1, take1, keep2, take2, root_scale, epsilon, rate, lower, upper, first_scale;
  };
  struct Memory {
    Values values;
    AdaboundByStep given;
  };
  static constexpr int kStates = 2;  // first, second
  static constexpr bool kBackwards = false;

  // t = 0: nothing follows from the step's number.
  __device__ static Values values_of(const AdaboundByStep& given, int64_t t) {
    const AdaboundCoefficients c = t > 0 ? given.at(t) : given.c;
    const auto f = [](double value) { return static_cast<float>(value); };
    return {.scale = f(c.gradient_scale),
            .decay = f(c.weight_decay),
            .keep1 = f(c.beta1),
            .take1 = f(1 - c.beta1),
            .keep2 = f(c.beta2),
            .take2 = f(1 - c.beta2),
            .root_scale = f(1 / sqrt(c.correction2)),
            .epsilon = f(c.epsilon),
            .rate = f(c.rate),
            .lower = f(c.lower),
            .upper = f(c.upper),
            .first_scale = f(1 / c.correction1)};
  }

  __device__ AdaboundUpdate(const Values& values, float inverse_scale, bool decayed, uint32_t) : c(values) {
    c.scale *= inverse_scale;
    if (!decayed) c.decay = 0;
  }

  __device__ void operator()(float& w, float gradient, float (&state)[2]) const {
    const float g = c.scale * gradient + c.decay * w;
    const float m = c.keep1 * state[0] + c.take1 * g;
    const float v = c.keep2 * state[1] + c.take2 * (g * g);
    state[0] = m;
    state[1] = v;
    const float root = c.root_scale * sqrtf(v);
    const float own = c.rate / (root > c.epsilon ? root : c.epsilon);
    const float raised = own > c.lower ? own : c.lower;
    const float clipped = raised < c.upper ? raised : c.upper;
    w = w - clipped * (c.first_scale * m);
  }

  Values c;
};

}  // namespace

void adabound_prepare_on_device(const DeviceTable& table, const AdaboundByStep& by_step) {
  write_coefficients(table, AdaboundUpdate::Memory{.values = {}, .given = by_step});
}

void adabound_prepare_on_device(const DeviceTable& table, const AdaboundCoefficients& c) {
  adabound_prepare_on_device(table, AdaboundByStep{.c = c, .final_rate = 0, .gamma = 0});
}

void adabound_update_on_device(const DeviceTable& table, int64_t* steps) {
  launch_count<AdaboundUpdate>("adabound, count_step", table, steps);
  launch_update<AdaboundUpdate>("adabound", table);
}

}  // namespace paceline
