#include "paceline/train/device_step.h"

#include "paceline/core/check.h"
#include "paceline/optim/gradient_norm.h"
#include "paceline/precision/finite_check.h"
#include "paceline/train/dropout_seed.h"

namespace paceline {
namespace {

constexpr int kStepsBeforeRecording = 3;  // libraries choose their algorithms and fill their caches
constexpr size_t kMostRecordings = 8;     // a batch that changes all the time is not worth it

}  // namespace

std::string DeviceStep::why_not(const Recipe& recipe, int ranks) {
  if (recipe.train.device != "cuda") return "they are made on the CPU";
  if (finds_rate(recipe)) return "sync.rate asks for losses and gradients at other weights";
  if (ranks > 1 && recipe.batch_norm.sync) return "batch_norm.sync exchanges statistics between hosts";
  return "";
}

DeviceStep::DeviceStep(std::shared_ptr<Model> model, Optimizer& optimizer, const Recipe& recipe, Reducer& reducer,
                       LossScaler* scaler)
    : model_(std::move(model)),
      optimizer_(optimizer),
      recipe_(recipe),
      reducer_(reducer),
      scaler_(scaler),
      pass_(*model_, recipe, scaler),
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
  StepRiders rode = {};
  rode[stops] = inputs.stop.stop_requested() ? 1 : 0;
  seed_dropout(recipe_.train.seed, inputs.step, inputs.rank);
  const StepStream stream(device_);
  Recording* const recording = recording_for(inputs, coefficients);
  const torch::Tensor figures =
      recording ? replay(*recording, inputs, coefficients, rode) : make(inputs, coefficients, rode);
  StepOutcome outcome = {figures[0], figures[1], inputs.batch.labels.size(0)};
  outcome.stop_asked = rode[stops] > 0;
  (scaler_ ? outcome.overflow : outcome.not_finite) = figures[2];
  return outcome;
}

// The loss, how many were right, and whether a gradient was not finite.
torch::Tensor DeviceStep::make(const StepInputs& inputs, const StepCoefficients& coefficients, StepRiders& rode) {
  for (const Statistics& each : statistics_) each.kept.copy_(each.live);
  reducer_.begin();
  const PassSums sums = pass_.gradients(inputs.batch, inputs.global_count, [this] { reducer_.expect_last_pass(); });
  reducer_.finish(rode);

  const torch::NoGradGuard no_grad;
  const StepCoefficients judged = guarded(coefficients);
  optimizer_.step(judged);
  const torch::Tensor spoilt = judged.found_inf > 0;
  for (const Statistics& each : statistics_) each.live.copy_(torch::where(spoilt, each.kept, each.live));
  const torch::Tensor figures = torch::stack(
      {sums.loss.to(torch::kFloat64), sums.correct.to(torch::kFloat64), judged.found_inf.to(torch::kFloat64)});
  if (scaler_) scaler_->accept_on_device();
  return figures;
}

// With what only the device knows of the gradients.
StepCoefficients DeviceStep::guarded(StepCoefficients coefficients) {
  std::vector<torch::Tensor> gradients;
  for (const Parameter& parameter : parameters_)
    if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
  if (scaler_) {
    scaler_->inspect(gradients);
    coefficients.found_inf = scaler_->overflow();
    coefficients.inverse_scale = scaler_->inverse_scale();
  } else {
    diverged_.copy_(torch::maximum(diverged_, any_not_finite(gradients, device_)));
    coefficients.found_inf = diverged_;
  }
  if (const double max_norm = recipe_.optimizer.clip_norm; max_norm > 0) {
    torch::Tensor norm = gradient_norm_on(device_, parameters_), factor = torch::ones_like(norm);
    if (scaler_) factor = scaler_->inverse_scale().to(torch::kFloat64);
    coefficients.inverse_scale = (factor * clip_scale(factor * norm, max_norm)).to(torch::kFloat32);
  }
  return coefficients;
}

torch::Tensor DeviceStep::replay(Recording& recording, const StepInputs& inputs, const StepCoefficients& coefficients,
                                 StepRiders& rode) {
  if (recording.graph)
    reducer_.repeat(recording.took_part, rode);
  else
    record(recording, inputs, coefficients, rode);
  CHECK_TRUE(recording.images.data_ptr() == inputs.batch.images.data_ptr() &&
                 recording.labels.data_ptr() == inputs.batch.labels.data_ptr(),
             "a batch of {} samples lies elsewhere than when its step was recorded", inputs.batch.labels.size(0));
  for (const auto& [layer, values] : recording.values_per_channel) layer->note_batch(values);
  optimizer_.prepare(coefficients);
  recording.graph->replay();
  ++replays_;
  return recording.figures.clone();
}

DeviceStep::Recording* DeviceStep::recording_for(const StepInputs& inputs, const StepCoefficients& coefficients) {
  const std::string& wanted = recipe_.train.graph;
  const auto stage = optimizer_.capture_stage(coefficients);
  if (!StepGraph::is_possible(device_) || wanted == "never" || (reducer_.ranks() > 1 && wanted != "always") || !stage)
    return nullptr;
  // NCCL wants all ranks to replay, or none. Where one has its even share, all have, unless some are filled first.
  if (reducer_.ranks() > 1 && recipe_.batch.fill > 0) return nullptr;
  if (inputs.batch.labels.size(0) * reducer_.ranks() != inputs.global_count) return nullptr;
  const Shape shape = {inputs.batch.labels.size(0), inputs.global_count, *stage};
  if (recordings_.size() >= kMostRecordings && !recordings_.contains(shape)) return nullptr;
  Recording& recording = recordings_[shape];
  return ++recording.seen > kStepsBeforeRecording ? &recording : nullptr;
}

void DeviceStep::record(Recording& recording, const StepInputs& inputs, const StepCoefficients& coefficients,
                        StepRiders& rode) {
  recording.images = inputs.batch.images;
  recording.labels = inputs.batch.labels;
  for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  const std::vector<BatchNorm2d*> layers = batch_norm_layers(*model_);
  std::vector<double> corrections;
  for (const BatchNorm2d* layer : layers) corrections.push_back(layer->correction());
  recording.graph =
      std::make_unique<StepGraph>(device_, first_graph_, [&] { recording.figures = make(inputs, coefficients, rode); });
  for (const Parameter& parameter : parameters_) recording.gradients.push_back(parameter.tensor.grad());
  recording.took_part = reducer_.took_part();
  for (size_t i = 0; i < layers.size(); ++i) {
    recording.values_per_channel.emplace_back(layers[i], layers[i]->values_per_channel());
    layers[i]->set_correction(corrections[i]);  // the recorded batch counts when it is replayed
  }
  if (first_graph_ == nullptr) first_graph_ = recording.graph.get();
}

}  // namespace paceline
