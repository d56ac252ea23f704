#include "paceline/ps/server_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "paceline/core/error.h"
#include "paceline/core/nearest.h"
#include "paceline/kernels/adam.h"
#include "paceline/kernels/lars.h"
#include "paceline/kernels/progressive.h"
#include "paceline/kernels/rmsprop.h"
#include "paceline/kernels/sgd.h"

namespace paceline {
namespace {

bool adaptive(const ServerUpdate& update) { return update.optimizer == "adam" || update.optimizer == "adamw"; }

// For kernels whose momentum nobody keeps: with momentum 0 what is in it does not matter but must be finite. Small
// pieces, so that it stays in the first cache.
template <class Kernel>
void without_momentum(uint64_t count, const Kernel& kernel) {
  constexpr uint64_t kPiece = 1024;
  std::array<float, kPiece> momentum;
  for (uint64_t at = 0; at < count; at += kPiece) {
    momentum.fill(0);
    kernel(at, momentum.data(), std::min(kPiece, count - at));
  }
}

}  // namespace

void check_update(const ServerUpdate& update) {
  const std::vector<std::string> known = {"sgd", "progressive", "adam", "adamw", "rmsprop", "lars"};
  if (std::ranges::find(known, update.optimizer) == known.end()) {
    throw RecipeError(fmt::format("a server knows no optimizer '{}', only {}{}", update.optimizer,
                                  fmt::join(known, ", "), did_you_mean(update.optimizer, known)));
  }
  const auto within = [](const char* name, double value, double least, double below) {
    if (!(value >= least && value < below)) {
      throw RecipeError(fmt::format("a server's {} is at least {} and below {}, not {}", name, least, below, value));
    }
  };
  within("momentum", update.momentum, 0, 1);
  within("beta1", update.beta1, 0, 1);
  within("beta2", update.beta2, 0, 1);
  within("alpha", update.alpha, 0, 1);
  within("weight_decay", update.weight_decay, 0, 1e30);
  within("epsilon", update.epsilon, 0, 1e30);
  within("eta", update.eta, 0, 1e30);
  within("history", update.history, 0, kMostHistory + 1);
  within("most_workers", update.most_workers, 1, 1 << 20);
  within("threads", update.threads, 1, 1 << 20);
  if (update.look_ahead && update.optimizer != "progressive") {
    throw RecipeError("look-ahead needs the server's optimizer 'progressive', not '" + update.optimizer + "'");
  }
}

std::string settings_text(const ServerUpdate& update) {
  return fmt::format(
      "optimizer {} momentum {} nesterov {} weight_decay {} beta1 {} beta2 {} epsilon {} alpha {} eta {} look_ahead {} "
      "noise {} history {} most_workers {}",
      update.optimizer, update.momentum, update.nesterov, update.weight_decay, update.beta1, update.beta2,
      update.epsilon, update.alpha, update.eta, update.look_ahead, update.noise, update.history, update.most_workers);
}

std::vector<std::string> state_names(const ServerUpdate& update) {
  if (adaptive(update)) return {"first", "second"};
  const bool keeps = update.momentum > 0 || update.optimizer == "progressive" || update.optimizer == "lars";
  std::vector<std::string> names;
  if (update.optimizer == "rmsprop") names.push_back("second");
  if (keeps) names.push_back("momentum");
  return names;
}

int momentum_state(const ServerUpdate& update) {
  return update.optimizer == "rmsprop" || state_names(update).empty() ? -1 : 0;
}

double merge_scale(const ServerUpdate& update) { return adaptive(update) ? 1 - update.beta1 : 1; }

UpdateRule::UpdateRule(const ServerUpdate& update, double rate, uint64_t step)
    : update_(update),
      rule_(update.optimizer == "sgd"           ? Rule::sgd
            : update.optimizer == "progressive" ? Rule::progressive
            : update.optimizer == "rmsprop"     ? Rule::rmsprop
            : update.optimizer == "lars"        ? Rule::lars
                                                : Rule::adam),
      rate_(rate),
      correction1_(1 - std::pow(update.beta1, static_cast<double>(step))),
      correction2_(1 - std::pow(update.beta2, static_cast<double>(step))) {}

void UpdateRule::operator()(float* weights, const float* gradient, std::span<float* const> states, uint64_t count,
                            bool decayed, float local_rate) const {
  const double decay = decayed ? update_.weight_decay : 0;
  const auto momentum = static_cast<float>(update_.momentum);
  if (rule_ == Rule::sgd) {
    const SgdCoefficients c = {.rate = static_cast<float>(rate_),
                               .momentum = momentum,
                               .weight_decay = static_cast<float>(decay),
                               .gradient_scale = 1,
                               .nesterov = update_.nesterov};
    if (!states.empty()) return sgd_update(weights, gradient, states[0], count, c);
    without_momentum(count, [&](uint64_t at, float* none, uint64_t piece) {
      sgd_update(weights + at, gradient + at, none, piece, c);
    });
  } else if (rule_ == Rule::progressive) {
    progressive_update(
        weights, gradient, states[0], count,
        {.rate = static_cast<float>(rate_), .momentum = momentum, .weight_decay = static_cast<float>(decay)});
  } else if (rule_ == Rule::rmsprop) {
    const RmspropCoefficients c = {.rate = rate_,
                                   .alpha = update_.alpha,
                                   .epsilon = update_.epsilon,
                                   .momentum = update_.momentum,
                                   .weight_decay = decay,
                                   .gradient_scale = 1};
    if (states.size() == 2) return rmsprop_update(weights, gradient, states[0], states[1], count, c);
    without_momentum(count, [&](uint64_t at, float* none, uint64_t piece) {
      rmsprop_update(weights + at, gradient + at, states[0] + at, none, piece, c);
    });
  } else if (rule_ == Rule::lars) {
    lars_update(weights, gradient, states[0], count,
                {.local_rate = local_rate,
                 .momentum = momentum,
                 .weight_decay = static_cast<float>(decay),
                 .gradient_scale = 1});
  } else {
    adam_update(weights, gradient, states[0], states[1], count,
                {.rate = rate_,
                 .beta1 = update_.beta1,
                 .beta2 = update_.beta2,
                 .epsilon = update_.epsilon,
                 .weight_decay = decay,
                 .decoupled = update_.optimizer == "adamw",
                 .correction1 = correction1_,
                 .correction2 = correction2_,
                 .gradient_scale = 1});
  }
}

}  // namespace paceline
