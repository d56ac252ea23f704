// Catalog: everything that a recipe can name. A program adds its own models, data sets, optimizers and
// codecs before it trains.
#pragma once

#include "paceline/codecs/codec.h"
#include "paceline/data/dataset.h"
#include "paceline/models/model.h"
#include "paceline/optim/optimizer.h"

namespace paceline {

struct Catalog {
  Registry<ModelInfo> models = builtin_models();
  Registry<DatasetInfo> datasets = builtin_datasets();
  Registry<OptimizerFactory> optimizers = builtin_optimizers();
  Registry<CodecFactory> codecs = builtin_codecs();
};

}  // namespace paceline
