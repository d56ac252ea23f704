#include "paceline/optim/optimizer.h"

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {

void copy_state(const Optimizer::State& saved, const Optimizer::State& live, const std::string& source) {
  for (const auto& [name, tensor] : saved) {
    if (!live.contains(name)) throw DataError(fmt::format("{}: unexpected tensor '{}'", source, name));
  }
  for (const auto& [name, tensor] : live) {
    const auto found = saved.find(name);
    if (found == saved.end()) throw DataError(fmt::format("{}: tensor '{}' is missing", source, name));
    if (found->second.sizes() != tensor.sizes() || found->second.dtype() != tensor.dtype()) {
      throw DataError(fmt::format("{}: tensor '{}' has another shape or type than this run's", source, name));
    }
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : live) tensor.copy_(saved.at(name));
}

void load_around(Optimizer& inner, const Optimizer::State& own, const Optimizer::State& saved,
                 const std::string& source) {
  Optimizer::State mine, rest;
  for (const auto& [name, tensor] : saved) (own.contains(name) ? mine : rest).emplace(name, tensor);
  inner.load_state(rest, source);
  copy_state(mine, own, source);
}

std::optional<StepCoefficients> read_scaling(const StepCoefficients& coefficients) {
  StepCoefficients c = coefficients;
  if (c.found_inf.defined() && c.found_inf.item<float>() != 0) return std::nullopt;
  if (c.inverse_scale.defined()) c.gradient_scale *= c.inverse_scale.item<float>();
  c.found_inf = c.inverse_scale = torch::Tensor();
  return c;
}

void Optimizer::prepare(const StepCoefficients&) {
  CHECK_TRUE(false, "this optimizer's step cannot be replayed from a CUDA graph");
}

void Optimizer::load_state(const State& saved, const std::string& source) { copy_state(saved, state(), source); }

}  // namespace paceline
