#include "paceline/optim/optimizer.h"

#include "paceline/core/error.h"
#include "paceline/optim/sgd.h"

namespace paceline {

void Optimizer::load_state(const State& saved, const std::string& source) {
  const State live = state();
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

Registry<OptimizerFactory> builtin_optimizers() {
  Registry<OptimizerFactory> optimizers("optimizer");
  optimizers.add("sgd", [](std::vector<Parameter> parameters, const Recipe::Optimizer& recipe) {
    return std::make_unique<Sgd>(std::move(parameters),
                                 SgdOptions{.weight_decay = recipe.weight_decay, .nesterov = recipe.nesterov});
  });
  return optimizers;
}

}  // namespace paceline
