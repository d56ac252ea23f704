// CIFAR-10 and CIFAR-100 in their binary versions: records of one or two label bytes and a 3x32x32 image (red, green,
// blue).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "paceline/data/dataset.h"
#include "paceline/data/memory_dataset.h"

namespace paceline {

inline constexpr ImageShape kCifarShape = {.channels = 3, .height = 32, .width = 32};

// One label byte per entry: how many classes it tells apart. The last label is the one that is learnt: CIFAR-10 {10},
// CIFAR-100 {20, 100} (coarse, fine).
using CifarLabels = std::vector<int64_t>;

// Reads the files one after the other. Each must hold exactly `records_per_file` records: a file cut between two
// records would otherwise pass for a smaller one. Throws DataError.
LabelledImages read_cifar(std::span<const std::filesystem::path> files, const CifarLabels& labels,
                          size_t records_per_file);

// data_batch_1.bin … data_batch_5.bin and test_batch.bin in options.root or in its folder cifar-10-batches-bin.
DatasetPair open_cifar10(const DatasetOptions& options);

// train.bin and test.bin in options.root or in its folder cifar-100-binary; the 100 fine labels.
DatasetPair open_cifar100(const DatasetOptions& options);

}  // namespace paceline
