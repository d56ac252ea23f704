// DeviceStep: a training step in which the host never waits for the device. It does what TrainStep does; whether
// gradients are finite, how far they are clipped, whether the step is skipped and what the loss scale becomes is
// decided where they are. Over several ranks that is decided alike, because the sums are; hosts meet once in a step, to
// agree on who wants to stop, and some ranks may take a TrainStep meanwhile. Without a loss scale, no step changes
// weights any more once a gradient was not finite: whoever reads that later finds them as they were before it.
//
// On a CUDA device a step whose shape has been seen some times is recorded as a graph and from then on launched as one
// piece (over several ranks: with train.graph = "always"). The bits are the same.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/train/step.h"
#include "paceline/train/step_graph.h"

namespace paceline {

class DeviceStep {
 public:
  // Why steps of this recipe have to wait for the device, in words; empty: they need not.
  static std::string why_not(const Recipe& recipe, int ranks);

  // REQUIRES: why_not() is empty; the model is where its steps are to be made. Its buffers move to other memory.
  DeviceStep(std::shared_ptr<Model> model, Optimizer& optimizer, const Recipe& recipe, Reducer& reducer,
             LossScaler* scaler);

  // Only launches. Batches of as many samples must lie at the same addresses every time (Batches). outcome.overflow
  // tells whether the step changed anything; the scaler settles with it.
  StepOutcome operator()(const StepInputs& inputs);

  int64_t replays() const { return replays_; }

 private:
  // The model's statistics, which a forward pass changes before anybody knows whether the step will be skipped.
  struct Statistics {
    torch::Tensor live, kept;  // all of one type, side by side
  };
  struct Recording {
    int seen = 0;
    torch::Tensor images, labels, figures;
    std::vector<torch::Tensor> gradients;                              // held: the graph writes there
    std::vector<bool> took_part;                                       // Reducer's
    std::vector<std::pair<BatchNorm2d*, int64_t>> values_per_channel;  // what forward leaves on the host
    std::unique_ptr<StepGraph> graph;
  };
  struct Shape {
    int64_t samples, global_count;
    int64_t stage;  // of the optimizer
    auto operator<=>(const Shape&) const = default;
  };

  void gather_statistics();
  torch::Tensor make(const StepInputs& inputs, const StepCoefficients& coefficients, StepRiders& rode);
  torch::Tensor replay(Recording& recording, const StepInputs& inputs, const StepCoefficients& coefficients,
                       StepRiders& rode);
  StepCoefficients guarded(StepCoefficients coefficients);
  Recording* recording_for(const StepInputs& inputs, const StepCoefficients& coefficients);
  void record(Recording& recording, const StepInputs& inputs, const StepCoefficients& coefficients, StepRiders& rode);

  std::shared_ptr<Model> model_;
  Optimizer& optimizer_;
  const Recipe& recipe_;
  Reducer& reducer_;
  LossScaler* scaler_;
  GradientPass pass_;
  torch::Tensor diverged_;  // without a scaler: above 0 from the first gradient on that was not finite
  std::vector<Parameter> parameters_;
  torch::Device device_;
  std::vector<Statistics> statistics_;
  std::map<Shape, Recording> recordings_;
  const StepGraph* first_graph_ = nullptr;  // whose memory the others share
  int64_t replays_ = 0;
};

}  // namespace paceline
