#include "paceline/train/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "paceline/kernels/lars.h"
#include "paceline/precision/finite_check.h"

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double norm_of(const torch::Tensor& tensor) {
  return torch::linalg_vector_norm(tensor.detach(), 2, {}, false, torch::kFloat64).item<double>();
}

// LARS is also what "hybrid" has handed over to.
bool has_lars(const Recipe::Optimizer& recipe, double epoch) {
  return recipe.name == "lars" || (recipe.name == "hybrid" && epoch >= recipe.hybrid_epochs);
}

// By how much a layer moves, or would move: NaN counts as the most.
double unrest(const LayerFigures& layer) {
  if (layer.weights_not_finite > 0 || layer.gradients_not_finite > 0) return std::numeric_limits<double>::infinity();
  const double change = std::isnan(layer.update_norm) ? layer.gradient_norm : layer.update_norm;
  if (std::isnan(change)) return 0;
  return change / (layer.weight_norm > 0 ? layer.weight_norm : 1);  // a bias begins at 0
}

}  // namespace

Recorder::Values LayerFigures::values() const {
  Recorder::Values values = {{"weight_norm", weight_norm}, {"gradient_norm", gradient_norm}};
  if (!std::isnan(update_norm) || weights_not_finite > 0) values.emplace_back("update_norm", update_norm);
  if (!std::isnan(rate)) values.emplace_back("rate", rate);
  values.emplace_back("weights_not_finite", static_cast<double>(weights_not_finite));
  values.emplace_back("gradients_not_finite", static_cast<double>(gradients_not_finite));
  return values;
}

std::vector<LayerFigures> measure_layers(const std::vector<Parameter>& parameters, double gradient_scale) {
  const torch::NoGradGuard no_grad;
  std::vector<LayerFigures> figures;
  for (const Parameter& parameter : parameters) {
    const torch::Tensor& gradient = parameter.tensor.grad();
    figures.push_back({.name = parameter.name,
                       .weight_norm = norm_of(parameter.tensor),
                       .gradient_norm = gradient.defined() ? gradient_scale * norm_of(gradient) : kNone,
                       .update_norm = kNone,
                       .rate = kNone,
                       .weights_not_finite = count_not_finite(parameter.tensor.detach()),
                       .gradients_not_finite = gradient.defined() ? count_not_finite(gradient) : 0});
  }
  return figures;
}

UpdateDiagnosis::UpdateDiagnosis(const std::vector<Parameter>& parameters, const Recipe::Optimizer& recipe,
                                 const StepCoefficients& coefficients, double unscale)
    : parameters_(parameters), figures_(measure_layers(parameters, unscale)) {
  const double clipping = coefficients.gradient_scale / unscale;
  for (size_t i = 0; i < parameters.size(); ++i) {
    before_.push_back(parameters[i].tensor.detach().clone());
    LayerFigures& layer = figures_[i];
    if (!has_lars(recipe, coefficients.epoch)) continue;
    const bool adapted = parameters[i].decayed || recipe.decay_all;
    layer.rate = adapted ? lars_rate(coefficients.rate, recipe.eta, recipe.epsilon, recipe.weight_decay,
                                     layer.weight_norm, clipping * layer.gradient_norm)
                         : coefficients.rate;
  }
}

std::vector<LayerFigures> UpdateDiagnosis::finish() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor after = parameters_[i].tensor.detach();
    figures_[i].update_norm = norm_of(after - before_[i]);
    figures_[i].weights_not_finite = count_not_finite(after);
  }
  return std::move(figures_);
}

std::string worst_layers_text(std::vector<LayerFigures> figures, size_t most) {
  std::ranges::stable_sort(figures, std::greater<>(), unrest);
  figures.resize(std::min(figures.size(), most));
  size_t width = 5;
  for (const LayerFigures& layer : figures) width = std::max(width, layer.name.size());
  std::string text =
      fmt::format("{:<{}}  {:>11}  {:>11}  {:>11}  not finite", "layer", width, "|weights|", "|gradient|", "|update|");
  for (const LayerFigures& layer : figures)
    text += fmt::format("\n{:<{}}  {:>11.4g}  {:>11.4g}  {:>11}  {} weights, {} gradients", layer.name, width,
                        std::abs(layer.weight_norm), std::abs(layer.gradient_norm),  // no "-nan"
                        std::isnan(layer.update_norm) ? "-" : fmt::format("{:.4g}", layer.update_norm),
                        layer.weights_not_finite, layer.gradients_not_finite);
  return text;
}

}  // namespace paceline
