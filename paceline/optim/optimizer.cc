#include "paceline/optim/optimizer.h"

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

void Optimizer::load_state(const State& saved, const std::string& source) { copy_state(saved, state(), source); }

}  // namespace paceline
