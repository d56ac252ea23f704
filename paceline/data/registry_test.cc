#include <gmock/gmock.h>

#include <numeric>

#include "paceline/data/dataset.h"
#include "paceline/data/memory_dataset.h"
#include "paceline/data/test_files.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Datasets, AreKnownByName) {
  EXPECT_THAT(builtin_datasets().names(),
              ElementsAre("cifar10", "cifar100", "fashion_mnist", "mnist", "synthetic", "tiny_imagenet"));
  EXPECT_THROW(open_dataset(builtin_datasets(), "fashion_mist", {}), UsageError);
}

TEST(Datasets, SyntheticNeedsNoFolder) {
  const DatasetPair data = open_dataset(builtin_datasets(), "synthetic", {.train_samples = 5, .image_size = 4});
  EXPECT_EQ(data.train->size(), 5u);
}

TEST(Datasets, SayHowManySamplesTheyHaveBeforeTheyAreOpened) {
  const Registry<DatasetInfo> datasets = builtin_datasets();
  EXPECT_EQ(datasets.at("synthetic").train_samples, open_dataset(datasets, "synthetic", {}).train->size());
  for (const char* name : {"fashion_mnist", "mnist"}) EXPECT_EQ(datasets.at(name).train_samples, 60'000u);
  for (const char* name : {"cifar10", "cifar100"}) EXPECT_EQ(datasets.at(name).train_samples, 50'000u);
  EXPECT_EQ(datasets.at("tiny_imagenet").train_samples, 100'000u);
}

// A registry with one data set that says which folder it was opened in.
Registry<DatasetInfo> own_dataset(std::vector<std::filesystem::path> default_roots, std::filesystem::path& opened) {
  Registry<DatasetInfo> datasets("data set");
  datasets.add("own", {.summary = "",
                       .default_roots = std::move(default_roots),
                       .open =
                           [&opened](const DatasetOptions& options) {
                             opened = options.root;
                             return DatasetPair{};
                           },
                       .how_to_get = "ask for it"});
  return datasets;
}

TEST(Datasets, OpenTheFirstDefaultFolderThatExists) {
  const TestFolder first, second;
  std::filesystem::path opened;
  open_dataset(own_dataset({first.path() / "none", first.path(), second.path()}, opened), "own", {});
  EXPECT_EQ(opened, first.path());
}

TEST(Datasets, OpenTheFolderThatWasNamed) {
  const TestFolder first, second;
  std::filesystem::path opened;
  open_dataset(own_dataset({first.path()}, opened), "own", {.root = second.path()});
  EXPECT_EQ(opened, second.path());
}

TEST(Datasets, SayWhereTheyLookedAndHowToGetTheData) {
  const TestFolder folder;
  std::filesystem::path opened;
  const auto datasets = own_dataset({folder.path() / "a", folder.path() / "b"}, opened);
  EXPECT_THAT(data_error([&] { open_dataset(datasets, "own", {}); }),
              AllOf(HasSubstr((folder.path() / "a").string() + ", " + (folder.path() / "b").string()),
                    HasSubstr("ask for it")));
  EXPECT_THAT(
      data_error([&] { open_dataset(datasets, "own", {.root = folder.path() / "c"}); }),
      AllOf(HasSubstr((folder.path() / "c").string()), HasSubstr("correct data.root, or leave it out and ask for it")));
  EXPECT_EQ(opened, "");
}

TEST(Datasets, HaveANormalisationPerChannel) {
  const std::filesystem::path root = builtin_datasets().at("fashion_mnist").default_roots.front();
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "Fashion-MNIST is not installed";
  const DatasetPair data = open_dataset(builtin_datasets(), "fashion_mnist", {.train_samples = 10, .test_samples = 10});
  EXPECT_THAT(data.normalisation.mean, ElementsAre(0.2860f));
  EXPECT_THAT(data.normalisation.deviation, ElementsAre(0.3530f));
}

TEST(FashionMnist, IsReadAsPublished) {
  const std::filesystem::path root = builtin_datasets().at("fashion_mnist").default_roots.front();
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "Fashion-MNIST is not installed";
  const DatasetPair data = open_dataset(builtin_datasets(), "fashion_mnist", {.root = root});
  EXPECT_EQ(data.train->size(), 60'000u);
  EXPECT_EQ(data.test->size(), 10'000u);
  EXPECT_EQ(data.train->shape(), (ImageShape{1, 28, 28}));
  EXPECT_EQ(data.train->label(0), 9);  // an ankle boot
  std::vector<int> per_class(10);
  double sum = 0;
  for (size_t i = 0; i < data.train->size(); ++i) {
    ++per_class[static_cast<size_t>(data.train->label(i))];
    const auto image = data.train->image(i, {});
    sum += std::accumulate(image.begin(), image.end(), uint64_t{0}) / 255.0;
  }
  EXPECT_THAT(per_class, testing::Each(6000));
  EXPECT_NEAR(sum / (60'000.0 * 784), data.normalisation.mean[0], 0.0001);
}

}  // namespace
}  // namespace paceline
