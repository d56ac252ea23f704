#include "paceline/train/assemble.h"

#include "paceline/core/error.h"
#include "paceline/models/initialise.h"

namespace paceline {

torch::Device open_device(const Recipe& recipe) {
  if (recipe.train.device == "cpu") return torch::kCPU;
#ifdef PACELINE_CUDA
  if (torch::cuda::is_available()) return torch::kCUDA;
  recipe.refuse("train.device", "no CUDA device was found on this machine; use device = \"cpu\"");
#else
  recipe.refuse("train.device",
                "this program was built without CUDA; build it with 'make build PRESET=cuda', or use device = \"cpu\"");
#endif
}

DatasetPair open_data(const Recipe& recipe, const Catalog& catalog) {
  const Recipe::Data& data = recipe.data;
  if (!catalog.datasets.contains(data.name)) recipe.refuse("data.name", catalog.datasets.unknown(data.name));
  DatasetPair pair = open_dataset(catalog.datasets, data.name,
                                  {.root = data.root,
                                   .train_samples = data.train_samples,
                                   .test_samples = data.test_samples,
                                   .classes = data.classes,
                                   .channels = data.channels,
                                   .image_size = data.image_size,
                                   .seed = recipe.train.seed});
  if (pair.train->size() == 0 || pair.test->size() == 0)
    recipe.refuse("data.name", "the training or test set is empty");
  return pair;
}

std::shared_ptr<Model> build_model(const Recipe& recipe, const Catalog& catalog, const Dataset& data) {
  if (!catalog.models.contains(recipe.model.name))
    recipe.refuse("model.name", catalog.models.unknown(recipe.model.name));
  std::shared_ptr<Model> model;
  try {
    model = make_model(catalog.models, recipe.model.name,
                       {.classes = data.classes(),
                        .channels = data.shape().channels,
                        .image_size = data.shape().height,
                        .dropout = recipe.model.dropout,
                        .zero_gamma = recipe.model.zero_gamma});
  } catch (const UsageError& error) {  // too small an input: the recipe's fault, so say where
    recipe.refuse("model.name", error.what());
  }
  initialise(*model, recipe.model.init, recipe.train.seed);
  return model;
}

std::unique_ptr<Optimizer> build_optimizer(const Recipe& recipe, const Catalog& catalog, const Model& model) {
  const std::string& name = recipe.optimizer.name;
  if (!catalog.optimizers.contains(name)) recipe.refuse("optimizer.name", catalog.optimizers.unknown(name));
  return catalog.optimizers.at(name)(parameters_of(model), recipe.optimizer);
}

}  // namespace paceline
