// One training step: forward and backward in one or more passes, the sum of gradients over the ranks, clipping, update.
//
// With a loss scaler, a step whose gradients are not finite is skipped, and leaves nothing behind but a smaller scale.
// Without one, on the CPU, it throws DivergenceError before the weights are touched; on a device, where to know would
// be to wait, the outcome tells, and neither this step nor a later one changes the weights.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/gradients/reducer.h"
#include "paceline/gradients/stale_sum.h"
#include "paceline/models/model.h"
#include "paceline/optim/optimizer.h"
#include "paceline/precision/loss_scaler.h"
#include "paceline/train/batches.h"
#include "paceline/train/diagnosis.h"
#include "paceline/train/passes.h"
#include "paceline/train/step_probes.h"
#include "paceline/train/step_undo.h"

namespace paceline {

// What this rank's samples gave, as tensors: reading them waits for the device, and that is for the caller to decide.
struct StepOutcome {
  torch::Tensor loss_sum;  // double precision is for those who add many of them up
  torch::Tensor correct;
  int64_t samples = 0;
  bool stop_asked = false;           // of any rank, before that backward was over which is applied: all stop alike
  bool skipped = false;              // its gradients had overflowed
  torch::Tensor not_finite = {};     // above 0: gradients were not, and nobody knew in time; undefined: they were
  torch::Tensor overflow = {};       // above 0: skipped after all, which only the device knows
  std::vector<LayerFigures> layers;  // where inputs.diagnose
};

struct StepInputs {
  TrainingBatch batch;       // this rank's share, which may be empty
  int64_t global_count = 0;  // samples of all ranks
  int64_t step = 0;
  int rank = 0;      // whose dropout it is
  double epoch = 0;  // where the step begins
  double rate = 0;
  double momentum = 0;
  std::stop_token stop = {};
  bool diagnose = false;  // look at every layer; one rank may do so alone
};

// What travels with the gradients, and becomes its sum over the ranks. Each step has all of them, whichever way it is
// made: ranks may differ in that.
enum StepRider { stops, losses_not_finite, step_riders };
using StepRiders = std::array<double, step_riders>;

class TrainStep {
 public:
  // `timeline` may be null. `scaler`: null without loss scaling. `stale`: null where a step applies its own gradients;
  // else the reducer is of this rank alone. `group`: those that diverge together.
  TrainStep(std::shared_ptr<Model> model, Optimizer& optimizer, Group& group, const Recipe& recipe, Reducer& reducer,
            Timeline* timeline, LossScaler* scaler = nullptr, StaleSum* stale = nullptr);

  // The gradient is the mean over all ranks' samples, whatever each rank's share.
  StepOutcome operator()(const StepInputs& inputs);

  // Applies the oldest gradients that are still under way, after the last step, whose inputs these are; false: there
  // are none.
  bool apply_next(const StepInputs& inputs);

  // Of a step on a device whose outcome told, with the weights that it had: makes it again, without an update, and
  // throws the DivergenceError that says where it began. Every rank calls it.
  [[noreturn]] void fail_again(const StepInputs& inputs, const std::string& what);

 private:
  StepOutcome compute(const StepInputs& inputs, StepRiders& rode);
  void judge(const StepInputs& inputs, bool losses_finite, StepOutcome& outcome);
  void update(const StepInputs& inputs, StepOutcome& outcome);
  RateProbes probes_of(const StepInputs& inputs, const StepOutcome& outcome);
  double loss_again(const StepInputs& inputs);
  double mean_over_ranks(const StepInputs& inputs, const torch::Tensor& loss_sum);
  [[noreturn]] void fail(const StepInputs& inputs, const std::string& what);
  std::string where_it_began(const StepInputs& inputs);
  void note(const char* what, int64_t begin_ns) const;
  torch::Device device() const { return parameters_.front().tensor.device(); }

  std::shared_ptr<Model> model_;
  Optimizer& optimizer_;
  Group& group_;
  const Recipe& recipe_;
  Reducer& reducer_;
  Timeline* timeline_;
  LossScaler* scaler_;
  StaleSum* stale_;
  Passes passes_;
  std::optional<StepUndo> undo_;      // with a scaler
  std::optional<StepProbes> probes_;  // where the rate is found on the way
  torch::Tensor diverged_;            // on a device without a scaler: above 0 when a gradient was not finite
  SteadyClock clock_;
  std::vector<Parameter> parameters_;
};

}  // namespace paceline
