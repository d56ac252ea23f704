#include "paceline/data/cifar.h"

#include <gmock/gmock.h>

#include "paceline/data/test_files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kPixels = 3 * 32 * 32;

// Records with the given label bytes; every pixel of an image is its number, the last one 255.
Bytes records(const std::vector<Bytes>& labels) {
  Bytes bytes;
  for (size_t i = 0; i < labels.size(); ++i) {
    bytes.insert(bytes.end(), labels[i].begin(), labels[i].end());
    bytes.insert(bytes.end(), kPixels - 1, static_cast<uint8_t>(i));
    bytes.push_back(255);
  }
  return bytes;
}

LabelledImages read(const std::vector<fs::path>& files, const CifarLabels& labels, size_t records_per_file) {
  return read_cifar(files, labels, records_per_file);
}

TEST(Cifar, ReadsFilesOneAfterTheOther) {
  const TestFolder folder;
  const LabelledImages images = read({write_bytes(folder.path() / "1.bin", records({{3}, {9}})),
                                      write_bytes(folder.path() / "2.bin", records({{0}, {5}}))},
                                     {10}, 2);
  EXPECT_THAT(images.labels, ElementsAre(3, 9, 0, 5));
  EXPECT_EQ(images.shape, (ImageShape{3, 32, 32}));
  EXPECT_EQ(images.classes, 10);
  ASSERT_EQ(images.pixels.size(), 4 * kPixels);
  EXPECT_EQ(images.pixels[0], 0);
  EXPECT_EQ(images.pixels[kPixels - 1], 255);
  EXPECT_EQ(images.pixels[kPixels], 1);
}

TEST(Cifar, LearnsTheLastOfSeveralLabels) {
  const TestFolder folder;
  const LabelledImages images =
      read({write_bytes(folder.path() / "train.bin", records({{19, 99}, {0, 1}}))}, {20, 100}, 2);
  EXPECT_THAT(images.labels, ElementsAre(99, 1));
  EXPECT_EQ(images.classes, 100);
  EXPECT_EQ(images.pixels[0], 0);
  EXPECT_EQ(images.pixels[kPixels], 1);
}

// Each cut must be noticed, between records too. The file only shrinks, so that it is written once.
TEST(Cifar, RefusesAFileCutAtAnyByte) {
  const TestFolder folder;
  const Bytes whole = records({{1}, {2}});
  const fs::path path = write_bytes(folder.path() / "cut.bin", whole);
  for (size_t count = whole.size(); count-- > 0;) {
    fs::resize_file(path, count);
    ASSERT_THAT(data_error([&] { read({path}, {10}, 2); }),
                AllOf(HasSubstr(path.string()), HasSubstr("byte " + std::to_string(count) + ": expected")));
  }
}

TEST(Cifar, RefusesBytesThatFollow) {
  const TestFolder folder;
  Bytes bytes = records({{1}, {2}});
  bytes.push_back(0);
  EXPECT_THAT(data_error([&] { read({write_bytes(folder.path() / "long.bin", bytes)}, {10}, 2); }),
              AllOf(HasSubstr("at most 6146 bytes"), HasSubstr("found 6147")));
}

TEST(Cifar, RefusesAHugeFileWithoutReadingIt) {
  const TestFolder folder;
  const fs::path path = write_bytes(folder.path() / "huge.bin", {});
  fs::resize_file(path, uint64_t{1} << 40);  // a hole: takes no space
  EXPECT_THAT(data_error([&] { read({path}, {10}, 2); }), HasSubstr("found 1099511627776"));
}

TEST(Cifar, RefusesALabelOutOfRangeAndNamesItsByte) {
  const TestFolder folder;
  EXPECT_THAT(data_error([&] {
                read({write_bytes(folder.path() / "a.bin", records({{1}, {10}}))}, {10}, 2);
              }),
              HasSubstr("a.bin, byte 3073: expected a label below 10, found 10"));
  EXPECT_THAT(data_error([&] {
                read({write_bytes(folder.path() / "b.bin", records({{1, 100}}))}, {20, 100}, 1);
              }),
              HasSubstr("b.bin, byte 1: expected a label below 100, found 100"));
}

TEST(Cifar, NamesAMissingFile) {
  const TestFolder folder;
  const DatasetOptions options{.root = folder.path()};
  EXPECT_THAT(data_error([&] { open_cifar10(options); }), HasSubstr("data_batch_1.bin: there is no such file"));
  EXPECT_THAT(data_error([&] { open_cifar100(options); }), HasSubstr("train.bin: there is no such file"));
}

// Files of the published sizes, all zero (they take no space) but for the first label.
void write_published_size(const TestFolder& folder, const fs::path& name, size_t bytes, const Bytes& beginning) {
  fs::resize_file(write_bytes(folder.path() / name, beginning), bytes);
}

TEST(Cifar, OpensThePublishedLayoutOfCifar10) {
  const TestFolder folder;
  for (int i = 1; i <= 5; ++i) {
    write_published_size(folder, "cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", 30'730'000,
                         {static_cast<uint8_t>(i)});
  }
  write_published_size(folder, "cifar-10-batches-bin/test_batch.bin", 30'730'000, {9});
  for (const fs::path& root : {folder.path(), folder.path() / "cifar-10-batches-bin"}) {
    const DatasetPair data = open_cifar10({.root = root, .test_samples = 100});
    EXPECT_EQ(data.train->size(), 50'000u);
    EXPECT_EQ(data.test->size(), 100u);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(data.train->label(i * 10'000), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(data.test->label(0), 9);
    EXPECT_THAT(data.test->image(99, {}), Each(0));
  }
}

TEST(Cifar, OpensThePublishedLayoutOfCifar100) {
  const TestFolder folder;
  write_published_size(folder, "train.bin", 153'700'000, {19, 99});
  write_published_size(folder, "test.bin", 30'740'000, {1, 2});
  const DatasetPair data = open_cifar100({.root = folder.path(), .train_samples = 7});
  EXPECT_EQ(data.train->size(), 7u);
  EXPECT_EQ(data.test->size(), 10'000u);
  EXPECT_EQ(data.train->classes(), 100);
  EXPECT_EQ(data.train->label(0), 99);
  EXPECT_EQ(data.test->label(0), 2);
}

}  // namespace
}  // namespace paceline
