#include "paceline/train/step.h"

#include "paceline/core/random.h"
#include "paceline/optim/gradient_norm.h"
#include "paceline/train/loss.h"

namespace paceline {

TrainStep::TrainStep(std::shared_ptr<Model> model, Optimizer& optimizer, Group& group, const Recipe& recipe,
                     Reducer& reducer, Timeline* timeline)
    : model_(std::move(model)),
      optimizer_(optimizer),
      group_(group),
      recipe_(recipe),
      reducer_(reducer),
      timeline_(timeline),
      parameters_(parameters_of(*model_)) {
  if (recipe.batch_norm.statistics != "last_iteration") return;
  for (const auto& module : model_->modules())
    if (auto* layer = dynamic_cast<BatchNorm2d*>(module.get())) last_iteration_.push_back(layer);
}

StepOutcome TrainStep::operator()(const StepInputs& inputs) {
  // libtorch's dropout draws from its own generator: it is set anew for each step and rank, so that it has no past.
  torch::manual_seed(RandomKey(recipe_.train.seed).with("dropout").with(inputs.step).with(group_.rank()).value());

  const int64_t samples = inputs.batch.labels.size(0);
  const int64_t at_once = recipe_.batch.micro > 0 ? recipe_.batch.micro : std::max<int64_t>(samples, 1);
  StepOutcome outcome = {torch::zeros({}), torch::zeros({}, torch::kInt64), samples};
  reducer_.begin();
  for (int64_t done = 0, pass = 0; done < samples; done += at_once, ++pass) {
    const int64_t count = std::min(at_once, samples - done);
    const bool whole = count == samples;
    const torch::Tensor images = whole ? inputs.batch.images : inputs.batch.images.narrow(0, done, count);
    const torch::Tensor labels = whole ? inputs.batch.labels : inputs.batch.labels.narrow(0, done, count);
    prepare_statistics(pass);
    const int64_t forward_ns = clock_.now_ns();
    const torch::Tensor logits = model_->forward(images);
    const torch::Tensor loss = loss_sum(recipe_.loss, logits, labels);
    note("forward", forward_ns);
    const int64_t backward_ns = clock_.now_ns();
    if (done + count == samples) reducer_.expect_last_pass();
    (loss / inputs.global_count).backward();
    note("backward", backward_ns);
    outcome.loss_sum = whole ? loss.detach() : outcome.loss_sum + loss.detach();
    outcome.correct = outcome.correct + correct_top1(logits.detach(), labels);
  }
  const int64_t wait_ns = clock_.now_ns();
  double stops = inputs.stop.stop_requested() ? 1 : 0;
  reducer_.finish(std::span(&stops, 1));
  outcome.stop_asked = stops > 0;
  note("wait for gradients", wait_ns);

  const int64_t update_ns = clock_.now_ns();
  const double max_norm = recipe_.optimizer.clip_norm;
  const double scale = max_norm > 0 ? clip_scale(gradient_norm(parameters_), max_norm) : 1;
  optimizer_.step(
      {.rate = inputs.rate, .momentum = inputs.momentum, .gradient_scale = scale, .epoch = inputs.epoch});
  note("update", update_ns);
  return outcome;
}

// The mean over the passes of a step, so that the last step's statistics are those of all its samples.
void TrainStep::prepare_statistics(int64_t pass) {
  for (BatchNorm2d* layer : last_iteration_) layer->set_momentum(1.0 / static_cast<double>(pass + 1));
}

void TrainStep::note(const char* what, int64_t begin_ns) const {
  if (timeline_)
    timeline_->add({.name = what,
                    .category = "step",
                    .track = "compute",
                    .begin_ns = begin_ns,
                    .end_ns = clock_.now_ns(),
                    .arguments = {}});
}

}  // namespace paceline
