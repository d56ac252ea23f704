// Synthetic data: images of any shape that need no files and can be learnt.
//
// Each class is a pattern of random tiles; an image is its class's pattern plus noise. Everything follows from the
// seed; sample i is the same however many are asked for. Each image is made when it is first asked for, and kept.
#pragma once

#include <string_view>

#include "paceline/data/dataset.h"
#include "paceline/data/memory_dataset.h"

namespace paceline {

inline constexpr int64_t kSyntheticTrainSamples = 1024, kSyntheticTestSamples = 256;  // when 0 are asked for

// `part` ("train", "test") chooses the noise: two parts share their classes and no image.
LabelledImages make_synthetic(ImageShape shape, int64_t classes, int64_t samples, uint64_t seed, std::string_view part);

// Throws RecipeError for options that make no data set.
DatasetPair open_synthetic(const DatasetOptions& options);

}  // namespace paceline
