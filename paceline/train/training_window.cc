#include "paceline/train/training_window.h"

#include <array>
#include <cmath>
#include <utility>

#include "paceline/collectives/sum_over_ranks.h"

namespace paceline {

namespace {

bool is_set(const torch::Tensor& flag) { return flag.defined() && flag.item<double>() > 0; }

}  // namespace

// One copy for all steps: what is read one by one, the device is waited for one by one.
void TrainingWindow::bring_home() {
  if (pending_.empty() || pending_.front().loss_sum.is_cpu()) return;
  const auto bring = [&](torch::Tensor StepOutcome::*figure) {
    std::vector<torch::Tensor> there;
    for (const StepOutcome& outcome : pending_)
      if ((outcome.*figure).defined()) there.push_back((outcome.*figure).to(torch::kFloat64));
    if (there.empty()) return;
    const torch::Tensor here = torch::stack(there).cpu();
    int64_t index = 0;
    for (StepOutcome& outcome : pending_)
      if ((outcome.*figure).defined()) outcome.*figure = here[index++];
  };
  for (const auto figure :
       {&StepOutcome::loss_sum, &StepOutcome::correct, &StepOutcome::not_finite, &StepOutcome::overflow})
    bring(figure);
}

std::optional<BadStep> TrainingWindow::drain() {
  bring_home();
  const std::vector<StepOutcome> outcomes = std::exchange(pending_, {});
  const std::vector<StepPlace> places = std::exchange(places_, {});
  std::optional<BadStep> lone;  // a loss of this rank's, before any gradient
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const StepOutcome& outcome = outcomes[i];
    state_.window_steps += 1;
    const double loss = outcome.loss_sum.item<double>();
    const bool finite = std::isfinite(loss), gradients_finite = !is_set(outcome.not_finite);
    const bool skipped = outcome.skipped || is_set(outcome.overflow);
    if (skipped && !finite) continue;
    const BadStep bad = {.place = places[i], .loss_finite = finite, .gradients_finite = gradients_finite};
    if (!gradients_finite) return bad;
    if (!finite && !lone) lone = bad;
    if (lone) continue;
    state_.window_loss_sum += loss;
    state_.window_correct += outcome.correct.item<int64_t>();
    state_.window_samples += outcome.samples;
  }
  return lone;
}

void TrainingWindow::gather() {
  std::array<double, 1> loss = {state_.window_loss_sum};
  std::array<int64_t, 2> counts = {state_.window_correct, state_.window_samples};
  sum_over_ranks(group_, view(std::span<double>(loss)));
  sum_over_ranks(group_, view(std::span<int64_t>(counts)));
  state_.window_loss_sum = loss[0];
  state_.window_correct = counts[0];
  state_.window_samples = counts[1];
}

void TrainingWindow::gather_for_checkpoint(const std::function<void()>& write) {
  gather();
  write();
  if (group_.rank() != 0) clear_sums();  // rank 0 goes on with the sum, as it will after a resume
}

bool TrainingWindow::close() {
  gather();
  const bool counts = state_.window_samples > 0;
  if (counts) {
    const auto samples = static_cast<double>(state_.window_samples);
    state_.train_loss = state_.window_loss_sum / samples;
    state_.train_accuracy = static_cast<double>(state_.window_correct) / samples;
  }
  state_.window_steps = 0;
  clear_sums();
  return counts;
}

void TrainingWindow::clear_sums() {
  state_.window_loss_sum = 0;
  state_.window_correct = 0;
  state_.window_samples = 0;
}

bool TrainingWindow::speaks(int64_t full_steps) const {
  return state_.window_samples > 0 && (state_.train_loss < 0 || 2 * state_.window_steps >= full_steps);
}

double TrainingWindow::shown_loss(int64_t full_steps) const {
  return speaks(full_steps) ? state_.window_loss_sum / static_cast<double>(state_.window_samples) : state_.train_loss;
}

double TrainingWindow::shown_accuracy(int64_t full_steps) const {
  return speaks(full_steps) ? static_cast<double>(state_.window_correct) / static_cast<double>(state_.window_samples)
                            : state_.train_accuracy;
}

}  // namespace paceline
