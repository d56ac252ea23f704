// What a step did to every layer: norms of weights, gradient and update, and what is not finite.
//
// A layer here is a parameter, by its name. All of it is the same on every rank, so one rank can look alone.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/recipe.h"
#include "paceline/metrics/recorder.h"
#include "paceline/optim/optimizer.h"

namespace paceline {

struct LayerFigures {
  std::string name;
  double weight_norm = 0;    // before the update
  double gradient_norm = 0;  // of the loss itself: without loss scale, before clipping; NaN: it has no gradient
  double update_norm = 0;    // NaN: nobody looked
  double rate = 0;           // that LARS gave the layer; NaN: it was not LARS
  int64_t weights_not_finite = 0;
  int64_t gradients_not_finite = 0;

  Recorder::Values values() const;  // what there is, for "layer" lines
};

// The figures without update and rate. Gradients are multiplied by `gradient_scale` first.
std::vector<LayerFigures> measure_layers(const std::vector<Parameter>& parameters, double gradient_scale);

// Looks before and after an update.
class UpdateDiagnosis {
 public:
  // Copies the weights. `unscale` undoes a loss scale; the coefficients are those of the update, its clipping included.
  UpdateDiagnosis(const std::vector<Parameter>& parameters, const Recipe::Optimizer& recipe,
                  const StepCoefficients& coefficients, double unscale);
  std::vector<LayerFigures> finish();

 private:
  const std::vector<Parameter>& parameters_;
  std::vector<torch::Tensor> before_;
  std::vector<LayerFigures> figures_;
};

// The worst layers as a few lines for people: what is not finite first, then by update / weight, or by gradient.
std::string worst_layers_text(std::vector<LayerFigures> figures, size_t most);

}  // namespace paceline
