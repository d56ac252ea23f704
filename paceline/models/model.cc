#include "paceline/models/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {
namespace {

void require(bool condition, const std::string& model, const std::string& what) {
  if (!condition) throw UsageError(fmt::format("model '{}': {}", model, what));
}

bool takes(const ModelInfo& info, const ModelOptions& options) {
  const bool square = options.height() == options.width();
  return info.smallest_input <= std::min(options.height(), options.width()) && (square || info.any_aspect);
}

std::string models_that_take(const Registry<ModelInfo>& models, const ModelOptions& options) {
  std::vector<std::string> names;
  for (const std::string& name : models.names())
    if (takes(models.at(name), options)) names.push_back(name);
  return names.empty() ? "no known model takes them" : fmt::format("these take them: {}", fmt::join(names, ", "));
}

}  // namespace

std::shared_ptr<Model> make_model(const Registry<ModelInfo>& models, const std::string& name,
                                  const ModelOptions& options) {
  const ModelInfo& info = models.at(name);
  require(options.classes >= 1, name, fmt::format("cannot tell {} classes apart; give at least 1", options.classes));
  require(options.channels >= 1, name, fmt::format("images have at least 1 channel, not {}", options.channels));
  require(options.dropout >= 0 && options.dropout < 1, name,
          fmt::format("dropout is a share in [0, 1), not {}", options.dropout));
  require(takes(info, options), name,
          fmt::format("the images have {}x{} pixels, but it needs {} {}x{}; {}", options.height(), options.width(),
                      info.any_aspect ? "at least" : "square ones of at least", info.smallest_input,
                      info.smallest_input, models_that_take(models, options)));
  return info.make(options);
}

int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace paceline
