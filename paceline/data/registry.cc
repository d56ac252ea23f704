// The data sets that Paceline knows by name, and where their files usually are.
#include <system_error>
#include <utility>

#include "paceline/data/cifar.h"
#include "paceline/data/dataset.h"
#include "paceline/data/idx.h"
#include "paceline/data/synthetic.h"
#include "paceline/data/tiny_imagenet.h"

namespace paceline {

Registry<DatasetInfo> builtin_datasets() {
  Registry<DatasetInfo> datasets("data set");
  datasets.add(
      "fashion_mnist",
      {.summary = "Fashion-MNIST: 60,000 + 10,000 grey images of clothes, 28x28, 10 classes",
       .default_roots = {"/usr/share/datasets/fashion-mnist", "data/fashion-mnist"},
       .open =
           [](const DatasetOptions& options) {
             return open_mnist_family(options, {.mean = {0.2860f}, .deviation = {0.3530f}});
           },
       .how_to_get = "on Debian and Ubuntu, install the package dataset-fashion-mnist; elsewhere, put its four "
                     "*-ubyte.gz files into data/fashion-mnist",
       .train_samples = 60'000});
  datasets.add("mnist", {.summary = "MNIST: 60,000 + 10,000 grey images of digits, 28x28, 10 classes",
                         .default_roots = {"data/mnist"},
                         .open =
                             [](const DatasetOptions& options) {
                               return open_mnist_family(options, {.mean = {0.1307f}, .deviation = {0.3081f}});
                             },
                         .how_to_get = "put its four *-ubyte.gz files into data/mnist",
                         .train_samples = 60'000});
  datasets.add("cifar10", {.summary = "CIFAR-10: 50,000 + 10,000 colour images, 32x32, 10 classes",
                           .default_roots = {"data/cifar-10-batches-bin", "data/cifar-10"},
                           .open = open_cifar10,
                           .how_to_get = "unpack the binary version (cifar-10-binary.tar.gz) into data",
                           .train_samples = 50'000});
  datasets.add("cifar100", {.summary = "CIFAR-100: 50,000 + 10,000 colour images, 32x32, 100 classes",
                            .default_roots = {"data/cifar-100-binary"},
                            .open = open_cifar100,
                            .how_to_get = "unpack the binary version (cifar-100-binary.tar.gz) into data",
                            .train_samples = 50'000});
  datasets.add("tiny_imagenet", {.summary = "Tiny-ImageNet: 100,000 + 10,000 colour images, 64x64, 200 classes",
                                 .default_roots = {"data/tiny-imagenet-200"},
                                 .open = [](const DatasetOptions& options) { return open_tiny_imagenet(options); },
                                 .how_to_get = "unpack tiny-imagenet-200.zip into data",
                                 .train_samples = 100'000});
  datasets.add("synthetic", {.summary = "made-up images of any shape that can be learnt; needs no files",
                             .default_roots = {},
                             .open = open_synthetic,
                             .how_to_get = "",
                             .train_samples = kSyntheticTrainSamples});
  return datasets;
}

DatasetPair open_dataset(const Registry<DatasetInfo>& datasets, const std::string& name, DatasetOptions options) {
  const DatasetInfo& info = datasets.at(name);
  std::error_code ignored;  // a folder that cannot be looked at counts as missing
  const auto missing = [&](const std::filesystem::path& root) { return !std::filesystem::is_directory(root, ignored); };

  if (!options.root.empty() && missing(options.root)) {
    throw DataError(fmt::format("{}: there is no folder {}; correct data.root{}{}", name, options.root.string(),
                                info.how_to_get.empty() ? "" : ", or leave it out and ", info.how_to_get));
  }
  if (options.root.empty() && !info.default_roots.empty()) {
    std::vector<std::string> tried;
    for (const std::filesystem::path& root : info.default_roots) {
      if (!missing(root)) {
        options.root = root;
        break;
      }
      tried.push_back(root.string());
    }
    if (options.root.empty()) {
      throw DataError(fmt::format("{}: the data is not here (tried: {}){}{}; or name its folder with data.root", name,
                                  fmt::join(tried, ", "), info.how_to_get.empty() ? "" : "; ", info.how_to_get));
    }
  }
  return info.open(options);
}

}  // namespace paceline
