// What is known of a data set without its files: for predictions.
#pragma once

#include <optional>

#include "paceline/core/recipe.h"
#include "paceline/data/dataset.h"

namespace paceline {

// Shape and classes of the recipe's data set, and no images: size() is 0. Null for a data set that only opening tells
// about.
std::unique_ptr<Dataset> dataset_outline(const Recipe::Data& data);

}  // namespace paceline
