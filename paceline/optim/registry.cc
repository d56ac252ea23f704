// The optimizers that a recipe can name.
#include "paceline/optim/adabound.h"
#include "paceline/optim/adam.h"
#include "paceline/optim/hybrid_descent.h"
#include "paceline/optim/lars.h"
#include "paceline/optim/rmsprop.h"
#include "paceline/optim/sgd.h"
#include "paceline/optim/weight_average.h"

namespace paceline {
namespace {

using Parameters = std::vector<Parameter>;
using Options = Recipe::Optimizer;

std::unique_ptr<Optimizer> make_sgd(Parameters parameters, const Options& recipe) {
  return std::make_unique<Sgd>(std::move(parameters),
                               SgdOptions{.weight_decay = recipe.weight_decay, .nesterov = recipe.nesterov});
}

LarsOptions lars_options(const Options& recipe) {
  return {.eta = recipe.eta,
          .epsilon = recipe.epsilon,
          .weight_decay = recipe.weight_decay,
          .momentum_correction = recipe.momentum_correction};
}

std::unique_ptr<Optimizer> make_lars(Parameters parameters, const Options& recipe) {
  return std::make_unique<Lars>(std::move(parameters), lars_options(recipe));
}

AdamOptions adam_options(const Options& recipe, bool decoupled) {
  return {.beta1 = recipe.beta1,
          .beta2 = recipe.beta2,
          .epsilon = recipe.epsilon,
          .weight_decay = recipe.weight_decay,
          .decoupled = decoupled};
}

std::unique_ptr<Optimizer> make_adam(Parameters parameters, const Options& recipe) {
  return std::make_unique<Adam>(std::move(parameters), adam_options(recipe, false));
}

std::unique_ptr<Optimizer> make_adamw(Parameters parameters, const Options& recipe) {
  return std::make_unique<Adam>(std::move(parameters), adam_options(recipe, true));
}

std::unique_ptr<Optimizer> make_rmsprop(Parameters parameters, const Options& recipe) {
  return std::make_unique<Rmsprop>(
      std::move(parameters),
      RmspropOptions{.alpha = recipe.alpha, .epsilon = recipe.epsilon, .weight_decay = recipe.weight_decay});
}

std::unique_ptr<Optimizer> make_adabound(Parameters parameters, const Options& recipe) {
  return std::make_unique<Adabound>(std::move(parameters), AdaboundOptions{.base_rate = recipe.rate,
                                                                           .final_rate = recipe.final_rate,
                                                                           .gamma = recipe.gamma,
                                                                           .beta1 = recipe.beta1,
                                                                           .beta2 = recipe.beta2,
                                                                           .epsilon = recipe.epsilon,
                                                                           .weight_decay = recipe.weight_decay});
}

std::unique_ptr<Optimizer> make_hybrid(Parameters parameters, const Options& recipe) {
  return std::make_unique<HybridDescent>(std::move(parameters),
                                         HybridDescentOptions{.warmup_epochs = recipe.hybrid_epochs,
                                                              .adaptive_rate = recipe.adaptive_rate,
                                                              .beta1 = recipe.beta1,
                                                              .beta2 = recipe.beta2,
                                                              .epsilon = recipe.epsilon,
                                                              .lars = lars_options(recipe)});
}

// optimizer.average goes with each of them.
OptimizerFactory averaging(std::unique_ptr<Optimizer> (*make)(Parameters, const Options&)) {
  return [make](Parameters parameters, const Options& recipe) {
    auto optimizer = make(parameters, recipe);
    if (recipe.average == 0) return optimizer;
    return with_weight_average(std::move(optimizer), std::move(parameters), recipe.average);
  };
}

}  // namespace

Registry<OptimizerFactory> builtin_optimizers() {
  Registry<OptimizerFactory> optimizers("optimizer");
  optimizers.add("sgd", averaging(make_sgd));
  optimizers.add("lars", averaging(make_lars));
  optimizers.add("adam", averaging(make_adam));
  optimizers.add("adamw", averaging(make_adamw));
  optimizers.add("rmsprop", averaging(make_rmsprop));
  optimizers.add("adabound", averaging(make_adabound));
  optimizers.add("hybrid", averaging(make_hybrid));
  return optimizers;
}

}  // namespace paceline
