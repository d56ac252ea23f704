// What a data set contains, in a few bytes: processes compare it to find out that one of them has read other files.
// Costs sixteen samples; a difference in other samples is not noticed.
#pragma once

#include <string>

#include "paceline/core/sha256.h"
#include "paceline/data/dataset.h"

namespace paceline {

// Pixels and labels of sixteen samples, the first and the last among them.
void hash_samples(const Dataset& data, Sha256& hash);
void hash_normalisation(const Normalisation& normalisation, Sha256& hash);

// Shape, classes, samples and normalisation of the training set; not its size. 16 hexadecimal digits.
std::string training_digest(const DatasetPair& data);

}  // namespace paceline
