// Tiny-ImageNet as it is distributed: 64x64 JPEG files in folders.
//
//   tiny-imagenet-200/wnids.txt                       the names of the classes
//   tiny-imagenet-200/train/WNID/images/*.JPEG
//   tiny-imagenet-200/val/images/*.JPEG               the test set: the labels of test/ were never published
//   tiny-imagenet-200/val/val_annotations.txt         a file and its class per line
//
// The images are decoded once, into a file (packed_images.h) in that folder or, where nothing can be written there, in
// the user's cache folder.
#pragma once

#include "paceline/data/dataset.h"

namespace paceline {

inline constexpr ImageShape kTinyImagenetShape = {.channels = 3, .height = 64, .width = 64};

// How much there must be: of a set that was not unpacked to its end, the rest would pass for a smaller one.
struct TinyImagenetSize {
  size_t classes = 200;
  size_t train_images_per_class = 500;
  size_t test_images = 10'000;
};

// In options.root or in its folder tiny-imagenet-200. A class has the place of its name among the sorted names, as with
// torchvision's ImageFolder. Training images come in turn from every class, those of a class by file name: the first so
// many have as many of each. Test images come in the order of val_annotations.txt.
// Throws DataError that names the file or folder; FileError when there is no place for the decoded images.
DatasetPair open_tiny_imagenet(const DatasetOptions& options, const TinyImagenetSize& size = {});

}  // namespace paceline
