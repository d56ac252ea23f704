// How a Trainer's ranks meet when they are not in step: replicas that train alone and are averaged now and then, or
// gradients that are applied late. What one rank has found out by itself (a loss that is not finite, a wish to stop)
// counts when all have heard of it: then they end after the same step.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "paceline/collectives/group_text.h"
#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/sync/local_sgd.h"
#include "paceline/train/trainer.h"

namespace paceline {

std::string Trainer::plan_text() const {
  if (stale_) return stale_->plan_text();
  if (!average_) return reducer_->plan_text();
  return fmt::format("averaged every {} step{}, summed by {}", recipe_.sync.interval,
                     recipe_.sync.interval == 1 ? "" : "s", average_->algorithm_text());
}

std::string Trainer::plan_json() const {
  if (stale_) return stale_->plan_json();
  return average_ ? average_->plan_json() : reducer_->plan_json();
}

Reducer::Cost Trainer::take_cost() {
  if (stale_) return stale_->take_cost();
  if (average_) return average_->take_cost();
  Reducer::Cost cost = reducer_->take_cost();
  const int64_t exchange_ns = std::exchange(exchange_ns_, 0);
  cost.busy_ns += exchange_ns;
  cost.exposed_ns += exchange_ns;
  return cost;
}

// A rank alone that diverged touches its weights no more, and waits for the others to hear of it.
StepOutcome Trainer::take_step(const StepInputs& inputs, bool waits) {
  const auto make = [&] { return waits ? (*step_)(inputs) : (*device_step_)(inputs); };
  if (!average_) return make();
  try {
    if (diverged_.empty()) return make();
  } catch (const DivergenceError& error) {
    diverged_ = error.what();
  }
  return {.loss_sum = torch::zeros({}, device_),
          .correct = torch::zeros({}, torch::TensorOptions(torch::kInt64).device(device_)),
          .skipped = true};
}

// Before whatever all ranks do together. (Replicas have been averaged, and have agreed by that; ranks in step that read
// outcomes at once have agreed in the step.)
void Trainer::meet() {
  drain();
  if (stale_) stale_->settle();
  const bool know_alike = group_.size() == 1 || average_ || (in_step() && !outcomes_come_late());
  if (know_alike) return;
  std::vector<int64_t> diverged = {diverged_.empty() ? 0 : 1};
  sum_over_ranks(group_, view(diverged));
  if (diverged[0] > 0) fail_together();
}

void Trainer::average_replicas() {
  drain();
  enum Rider { stops, divergences };
  std::array<double, 2> riders = {};
  riders[stops] = options_.stop.stop_requested() ? 1 : 0;
  riders[divergences] = diverged_.empty() ? 0 : 1;
  average_->run(since_average_, riders);
  since_average_ = {};
  stop_asked_ = riders[stops] > 0;
  if (riders[divergences] > 0) fail_together();
}

bool Trainer::averages_now() const {
  const auto step = static_cast<uint64_t>(state_.step), steps = static_cast<uint64_t>(length_.steps);
  return averages_after(step, static_cast<uint64_t>(recipe_.sync.interval), std::max(step, steps)) || due_.end ||
         due_.evaluation || due_.checkpoint;
}

// Every rank calls it, and throws the same.
void Trainer::fail_together() {
  const std::vector<std::string> found = gather_texts(group_, diverged_);
  for (size_t rank = 0; rank < found.size(); ++rank)
    if (!found[rank].empty()) throw DivergenceError(fmt::format("rank {}, {}", rank, found[rank]));
  throw InternalError("ranks agree to have diverged, but none has");
}

// For experiments with ranks of different speed: as if the last step's computing had taken so many times longer.
// Returns how long that was.
double Trainer::slow_down() const {
  const auto rank = static_cast<size_t>(group_.rank());
  if (rank >= recipe_.sync.slowdown.size() || options_.stop.stop_requested()) return 0;
  const double seconds = (recipe_.sync.slowdown[rank] - 1) * computed_s_;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return seconds;
}

}  // namespace paceline
