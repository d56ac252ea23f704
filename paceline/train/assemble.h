// From the names in a recipe to the things themselves. What a recipe names wrongly is a RecipeError at its line.
#pragma once

#include <memory>

#include "paceline/core/recipe.h"
#include "paceline/train/catalog.h"

namespace paceline {

DatasetPair open_data(const Recipe& recipe, const Catalog& catalog);
std::shared_ptr<Model> build_model(const Recipe& recipe, const Catalog& catalog, const Dataset& data);  // initialised
std::unique_ptr<Optimizer> build_optimizer(const Recipe& recipe, const Catalog& catalog, const Model& model);
torch::Device open_device(const Recipe& recipe);

}  // namespace paceline
