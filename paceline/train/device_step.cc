#include "paceline/train/device_step.h"

#include "paceline/core/check.h"
#include "paceline/precision/finite_check.h"
#include "paceline/train/dropout_seed.h"
#include "paceline/train/forward.h"
#include "paceline/train/loss.h"

namespace paceline {
namespace {

constexpr int kStepsBeforeRecording = 3;  // libraries choose their algorithms and fill their caches
constexpr size_t kMostRecordings = 8;     // a batch that changes all the time is not worth it

}  // namespace

std::string DeviceStep::why_not(const Recipe& recipe, int ranks) {
  if (recipe.train.device != "cuda") return "they are made on the CPU";
  if (ranks > 1) return "gradients are summed over ranks";
  if (recipe.optimizer.clip_norm > 0) return "optimizer.clip_norm needs the norm of all gradients";
  return "";
}

DeviceStep::DeviceStep(std::shared_ptr<Model> model, Optimizer& optimizer, const Recipe& recipe, LossScaler* scaler)
    : model_(std::move(model)),
      optimizer_(optimizer),
      recipe_(recipe),
      scaler_(scaler),
      passes_(*model_, recipe),
      parameters_(parameters_of(*model_)),
      device_(parameters_.front().tensor.device()) {
  if (scaler_)
    gather_statistics();
  else
    diverged_ = torch::zeros({}, torch::TensorOptions(torch::kFloat32).device(device_));
}

// So that to keep all of them is one copy.
void DeviceStep::gather_statistics() {
  const torch::NoGradGuard no_grad;
  std::map<torch::ScalarType, std::vector<torch::Tensor>> by_type;
  for (const torch::Tensor& buffer : model_->buffers()) by_type[buffer.scalar_type()].push_back(buffer);
  for (auto& [type, buffers] : by_type) {
    std::vector<torch::Tensor> flat;
    for (const torch::Tensor& buffer : buffers) flat.push_back(buffer.flatten());
    const torch::Tensor live = torch::cat(flat);
    int64_t begin = 0;
    for (torch::Tensor& buffer : buffers) {
      const int64_t count = buffer.numel();
      buffer.set_data(live.narrow(0, begin, count).view(buffer.sizes()));
      begin += count;
    }
    statistics_.push_back({live, torch::empty_like(live)});
  }
}

StepOutcome DeviceStep::operator()(const StepInputs& inputs) {
  const StepCoefficients coefficients = {
      .rate = inputs.rate, .momentum = inputs.momentum, .gradient_scale = 1, .epoch = inputs.epoch};
  seed_dropout(recipe_.train.seed, inputs.step, inputs.rank);
  const StepStream stream(device_);
  torch::Tensor figures;
  if (Recording* const recording = recording_for(inputs, coefficients)) {
    if (!recording->graph) record(*recording, inputs, coefficients);
    CHECK_TRUE(recording->images.data_ptr() == inputs.batch.images.data_ptr() &&
                   recording->labels.data_ptr() == inputs.batch.labels.data_ptr(),
               "a batch of {} samples lies elsewhere than when its step was recorded", inputs.batch.labels.size(0));
    optimizer_.prepare(coefficients);
    recording->graph->replay();
    ++replays_;
    figures = recording->figures.clone();
  } else {
    figures = make(inputs.batch, inputs.global_count, coefficients);
  }
  StepOutcome outcome = {figures[0], figures[1], inputs.batch.labels.size(0)};
  outcome.stop_asked = inputs.stop.stop_requested();
  (scaler_ ? outcome.overflow : outcome.not_finite) = figures[2];
  return outcome;
}

// The loss, how many were right, and whether a gradient was not finite.
torch::Tensor DeviceStep::make(const TrainingBatch& batch, int64_t global_count, const StepCoefficients& coefficients) {
  for (const Statistics& each : statistics_) each.kept.copy_(each.live);
  for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  torch::Tensor loss_of_all, right_of_all;
  passes_.each(batch, [&](const torch::Tensor& images, const torch::Tensor& labels, bool) {
    const torch::Tensor logits = logits_of(*model_, images, recipe_.train.precision);
    const torch::Tensor loss = loss_sum(recipe_.loss, logits, labels);
    const torch::Tensor share = loss / global_count;
    (scaler_ ? scaler_->scaled(share) : share).backward();
    const torch::Tensor right = correct_top1(logits.detach(), labels);
    loss_of_all = loss_of_all.defined() ? loss_of_all + loss.detach() : loss.detach();
    right_of_all = right_of_all.defined() ? right_of_all + right : right;
  });

  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const Parameter& parameter : parameters_)
    if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
  StepCoefficients guarded = coefficients;
  if (scaler_) {
    scaler_->inspect(gradients);
    guarded.found_inf = scaler_->overflow();
    guarded.inverse_scale = scaler_->inverse_scale();
  } else {
    diverged_.copy_(torch::maximum(diverged_, any_not_finite(gradients, device_)));
    guarded.found_inf = diverged_;
  }
  optimizer_.step(guarded);
  const torch::Tensor spoilt = guarded.found_inf > 0;
  for (const Statistics& each : statistics_) each.live.copy_(torch::where(spoilt, each.kept, each.live));
  const torch::Tensor figures = torch::stack(
      {loss_of_all.to(torch::kFloat64), right_of_all.to(torch::kFloat64), guarded.found_inf.to(torch::kFloat64)});
  if (scaler_) scaler_->accept_on_device();
  return figures;
}

DeviceStep::Recording* DeviceStep::recording_for(const StepInputs& inputs, const StepCoefficients& coefficients) {
  const auto stage = optimizer_.capture_stage(coefficients);
  if (!StepGraph::is_possible(device_) || recipe_.train.graph == "never" || !stage) return nullptr;
  const Shape shape = {inputs.batch.labels.size(0), inputs.global_count, *stage};
  if (recordings_.size() >= kMostRecordings && !recordings_.contains(shape)) return nullptr;
  Recording& recording = recordings_[shape];
  return ++recording.seen > kStepsBeforeRecording ? &recording : nullptr;
}

void DeviceStep::record(Recording& recording, const StepInputs& inputs, const StepCoefficients& coefficients) {
  recording.images = inputs.batch.images;
  recording.labels = inputs.batch.labels;
  for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  recording.graph = std::make_unique<StepGraph>(
      device_, first_graph_, [&] { recording.figures = make(inputs.batch, inputs.global_count, coefficients); });
  for (const Parameter& parameter : parameters_) recording.gradients.push_back(parameter.tensor.grad());
  if (first_graph_ == nullptr) first_graph_ = recording.graph.get();
}

}  // namespace paceline
