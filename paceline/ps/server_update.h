// How a server updates parameters: the settings, which state they need, and the kernels that they name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace paceline {

struct ServerUpdate {
  std::string optimizer = "sgd";  // sgd, progressive, adam, adamw, rmsprop, lars
  double momentum = 0.9;          // sgd and rmsprop (0: none), progressive (gamma), lars
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, alpha = 0.99;  // adam, rmsprop; epsilon also of lars
  double eta = 0.001;                                               // lars
  bool look_ahead = false;                                          // progressive: workers get w - rate·mc
  bool noise = false;                                               // reports tell how gradients differ
  int history = 0;        // versions whose means are kept (merge_mean), at most kMostHistory
  int most_workers = 64;  // places where gradients are staged; memory is taken as workers come
  int threads = 1;        // that update; the bits do not depend on it
};
inline constexpr int kMostHistory = 63;

void check_update(const ServerUpdate& update);              // throws RecipeError
std::string settings_text(const ServerUpdate& update);      // all that decides numbers and memory; not the threads
std::vector<std::string> state_names(const ServerUpdate&);  // the optimizer's arrays, one number for each parameter

// Late gradients are merged into the momentum, in its units: sgd's buffer and progressive's mc take factor·g; Adam's
// first moment takes (1 - beta1)·factor·g; the buffer of LARS, which has rates inside, takes local_rate·factor·g with
// the layer's rate of the last step (0 before the first). -1 where there is nothing of the kind (sgd without momentum,
// rmsprop, whose buffer holds quotients): such a server refuses merge and merge_mean.
int momentum_state(const ServerUpdate& update);  // index into state_names()
double merge_scale(const ServerUpdate& update);  // 1 or (1 - beta1)

// One step of a run of parameters, all decayed or none.
class UpdateRule {
 public:
  UpdateRule(const ServerUpdate& update, double rate, uint64_t step);  // step: 1, 2, ...: for Adam's corrections

  // local_rate: of lars. states: as state_names() has them.
  void operator()(float* weights, const float* gradient, std::span<float* const> states, uint64_t count, bool decayed,
                  float local_rate) const;

 private:
  enum class Rule : uint8_t { sgd, progressive, adam, rmsprop, lars };
  const ServerUpdate& update_;
  Rule rule_;  // a name is too slow to be compared for every chunk
  double rate_;
  double correction1_, correction2_;
};

}  // namespace paceline
