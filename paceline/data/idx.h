// IDX: the files of the MNIST family, plain or compressed with gzip.
//
// Big-endian: 0, 0, the element type (8: unsigned bytes), the number of dimensions; each dimension as 32 bits; the
// elements, last dimension fastest. Nothing may follow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "paceline/data/dataset.h"
#include "paceline/data/memory_dataset.h"

namespace paceline {

struct IdxFile {
  std::vector<uint64_t> dimensions;
  std::vector<uint8_t> values;
};

// Whether the file is compressed is told by its contents, not by its name. Throws DataError with the byte offset (in
// the uncompressed contents, or in the compressed ones where those are damaged). What the header claims is compared
// with the size of the file before memory is allocated for it.
IdxFile read_idx(const std::filesystem::path& path, size_t dimensions);

// Images (three dimensions) with their labels (one); as many classes as the highest label says. Throws DataError when
// their numbers differ.
LabelledImages read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels);

// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte in options.root,
// each as it is or with .gz. The training labels say how many classes there are: they go from 0, or 1, to the highest
// without a gap. Throws DataError where they do not, or where a test label is above them.
DatasetPair open_mnist_family(const DatasetOptions& options, Normalisation normalisation);

}  // namespace paceline
