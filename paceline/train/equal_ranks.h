// What ranks must have in common before they train together: recipe and data set. Steps rely on both and compare
// neither: a rank with another rate or other samples would drift away from the rest, and nobody would see it.
#pragma once

#include "paceline/comm/group.h"
#include "paceline/core/recipe.h"
#include "paceline/data/dataset.h"
#include "paceline/train/catalog.h"

namespace paceline {

// Every rank calls these. All throw the same error, which names the ranks that differ from rank 0 and in what; on other
// ranks than 0 it is marked as told. Where all are equal, a rank sends 64 bytes.

// RecipeError. What concerns the machine of a rank may differ: data.root, data.loader_threads, data.prefetch_batches
// and train.threads.
void require_equal_recipes(const Recipe& recipe, Group& group);

// DataError. Compares sizes, shapes, classes, normalisation and sixteen samples of either set.
void require_equal_data(const DatasetPair& data, Group& group);

// The recipe, and the data that it names, once all ranks are known to have the same.
Recipe equal_recipe(Recipe recipe, Group& group);
DatasetPair open_equal_data(const Recipe& recipe, const Catalog& catalog, Group& group);

}  // namespace paceline
