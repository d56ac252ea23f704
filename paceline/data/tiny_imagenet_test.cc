#include "paceline/data/tiny_imagenet.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>

#include "paceline/data/test_jpeg.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr TinyImagenetSize kSmall = {.classes = 2, .train_images_per_class = 3, .test_images = 2};

// Two classes of three grey images each, and two test images; the number of an image is its grey.
class TinyImagenet : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
    text("wnids.txt", "n02\nn01\n");
    text("words.txt", "n01\tgoldfish\nn02\ttoad\n");
    grey("train/n01/images/n01_0.JPEG", 10);
    grey("train/n01/images/n01_10.JPEG", 11);  // before n01_2, as ImageFolder sorts
    grey("train/n01/images/n01_2.JPEG", 12);
    grey("train/n02/images/n02_2.JPEG", 22);
    grey("train/n02/images/n02_0.JPEG", 20);
    grey("train/n02/images/n02_1.JPEG", 21);
    text("train/n01/n01_boxes.txt", "n01_0.JPEG\t0\t0\t1\t1\n");
    text("train/n02/images/Thumbs.db", "x");
    text("val/val_annotations.txt", "val_1.JPEG\tn02\t0\t0\t1\t1\r\nval_0.JPEG\tn01\t0\t0\t1\t1\r\n");
    grey("val/images/val_0.JPEG", 30);
    grey("val/images/val_1.JPEG", 31);
  }

  fs::path root() const { return folder_.path() / "tiny-imagenet-200"; }
  fs::path packed() const { return root() / "paceline.images"; }
  void text(const fs::path& name, const std::string& contents) {
    write_bytes(root() / name, Bytes(contents.begin(), contents.end()));
  }
  void grey(const fs::path& name, uint8_t level) { write_bytes(root() / name, plain_jpeg({level})); }

  DatasetPair open(DatasetOptions options = {}) {
    options.root = root();
    return open_tiny_imagenet(options, kSmall);
  }
  std::string error() {
    return data_error([&] { open(); });
  }

  TestFolder folder_;
};

// The first pixel of each image.
std::vector<int> levels(const Dataset& data) {
  std::vector<int> result;
  for (size_t i = 0; i < data.size(); ++i) result.push_back(data.image(i, {})[0]);
  return result;
}

std::vector<int64_t> labels(const Dataset& data) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < data.size(); ++i) result.push_back(data.label(i));
  return result;
}

TEST_F(TinyImagenet, TakesClassesInTurnAndTheirFilesByName) {
  const DatasetPair data = open();
  EXPECT_EQ(data.train->shape(), (ImageShape{3, 64, 64}));
  EXPECT_EQ(data.train->classes(), 2);
  EXPECT_THAT(labels(*data.train), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(levels(*data.train), ElementsAre(10, 20, 11, 21, 12, 22));
}

TEST_F(TinyImagenet, TestsOnTheImagesWhoseClassesAreKnown) {
  const DatasetPair data = open();
  EXPECT_EQ(data.test->classes(), 2);
  EXPECT_THAT(labels(*data.test), ElementsAre(1, 0));
  EXPECT_THAT(levels(*data.test), ElementsAre(31, 30));
}

TEST_F(TinyImagenet, HasColourAndGreyImages) {
  write_bytes(root() / "val/images/val_1.JPEG", plain_jpeg({200, 100, 30}));
  const DatasetPair data = open();
  EXPECT_THAT(data.test->image(1, {}), Each(30));
  const auto colour = data.test->image(0, {});
  EXPECT_NEAR(colour[0], 200, 2);
  EXPECT_NEAR(colour[64 * 64], 100, 2);
  EXPECT_NEAR(colour[2 * 64 * 64], 30, 2);
  EXPECT_EQ(data.normalisation.mean.size(), 3u);
  EXPECT_EQ(data.normalisation.deviation.size(), 3u);
}

TEST_F(TinyImagenet, IsFoundInItsFolderOrAboveIt) {
  EXPECT_EQ(open_tiny_imagenet({.root = folder_.path()}, kSmall).train->size(), 6u);
  EXPECT_EQ(open_tiny_imagenet({.root = root()}, kSmall).train->size(), 6u);
}

TEST_F(TinyImagenet, GivesTheFirstSamples) {
  const DatasetPair data = open({.train_samples = 4, .test_samples = 1});
  EXPECT_THAT(levels(*data.train), ElementsAre(10, 20, 11, 21));
  EXPECT_THAT(levels(*data.test), ElementsAre(31));
  EXPECT_THAT(data_error([&] { open({.train_samples = 7}); }), HasSubstr("7 training samples were asked for"));
}

TEST_F(TinyImagenet, IsDecodedAgainOnlyWhenAFileChanges) {
  open();
  const auto written = fs::last_write_time(packed());
  // Same size, same time, other contents: nothing tells that the file was touched, so the old image comes.
  const fs::path file = root() / "train/n01/images/n01_0.JPEG";
  const auto time = fs::last_write_time(file);
  const Bytes other = plain_jpeg({15});
  ASSERT_EQ(other.size(), fs::file_size(file));
  write_bytes(file, other);
  fs::last_write_time(file, time);
  EXPECT_EQ(levels(*open({.train_samples = 1}).train).front(), 10);
  EXPECT_EQ(fs::last_write_time(packed()), written);

  fs::last_write_time(file, time + std::chrono::seconds(1));
  EXPECT_EQ(levels(*open({.train_samples = 1}).train).front(), 15);

  fs::rename(root() / "train/n02/images/n02_1.JPEG", root() / "train/n02/images/n02_9.JPEG");
  EXPECT_THAT(levels(*open().train), ElementsAre(15, 20, 11, 22, 12, 21));
}

TEST_F(TinyImagenet, IsDecodedAgainWhenThePackedFileIsDamaged) {
  open();
  fs::resize_file(packed(), 5000);
  EXPECT_THAT(levels(*open().train), ElementsAre(10, 20, 11, 21, 12, 22));
}

TEST_F(TinyImagenet, IsPackedInTheCacheFolderWhereItsOwnTakesNothing) {
  fs::create_directories(packed() / "a folder of that name");  // permissions would not stop root
  EXPECT_THAT(levels(*open().test), ElementsAre(31, 30));
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "cache/paceline")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(fs::file_size(files[0]), 4096u + 8 * 3 * 64 * 64);
  const auto written = fs::last_write_time(files[0]);
  EXPECT_THAT(levels(*open().test), ElementsAre(31, 30));
  EXPECT_EQ(fs::last_write_time(files[0]), written);
}

TEST_F(TinyImagenet, OpenedTwiceAtOnceIsTheSame) {
  std::vector<DatasetPair> data(2);
  {
    std::vector<std::jthread> threads;
    for (DatasetPair& mine : data) threads.emplace_back([&] { mine = open(); });
  }
  for (const DatasetPair& mine : data) {
    EXPECT_THAT(levels(*mine.train), ElementsAre(10, 20, 11, 21, 12, 22));
    EXPECT_THAT(levels(*mine.test), ElementsAre(31, 30));
  }
}

TEST_F(TinyImagenet, NamesADamagedImage) {
  fs::resize_file(root() / "train/n02/images/n02_0.JPEG", 300);
  EXPECT_THAT(error(),
              AllOf(HasSubstr("train/n02/images/n02_0.JPEG: not a whole JPEG image"), HasSubstr("fetch it again")));
  EXPECT_FALSE(fs::exists(packed()));
}

TEST_F(TinyImagenet, NamesAMissingFile) {
  fs::remove(root() / "val/images/val_0.JPEG");
  EXPECT_THAT(error(), HasSubstr("val/images/val_0.JPEG: there is no such file"));
  fs::remove(root() / "val/val_annotations.txt");
  EXPECT_THAT(error(), HasSubstr("val/val_annotations.txt: there is no such file"));
  fs::remove(root() / "train/n02/images/n02_1.JPEG");
  EXPECT_THAT(error(), HasSubstr("train/n02/images: expected 3 files *.JPEG, found 2; tiny_imagenet is the "
                                 "published set, as it was unpacked: if this is it, unpack it again"));
  fs::remove_all(root() / "train/n02");
  EXPECT_THAT(error(), HasSubstr("train/n02/images: cannot be read: No such file or directory"));
  fs::remove(root() / "wnids.txt");
  EXPECT_THAT(error(), HasSubstr("wnids.txt: there is no such file"));
}

TEST_F(TinyImagenet, RefusesListsThatAreNotWhole) {
  text("wnids.txt", "n01\n");
  EXPECT_THAT(error(), HasSubstr("wnids.txt: expected 2 different classes, found 1"));
  text("wnids.txt", "n01\nn01\n");
  EXPECT_THAT(error(), HasSubstr("wnids.txt: expected 2 different classes, found 1"));
  text("wnids.txt", "n01\nn02\n");
  text("val/val_annotations.txt", "val_0.JPEG\tn01\n");
  EXPECT_THAT(error(), HasSubstr("val_annotations.txt: expected 2 lines, found 1"));
  text("val/val_annotations.txt", "val_0.JPEG\tn01\nval_1.JPEG\tn03\n");
  EXPECT_THAT(error(), HasSubstr("val_annotations.txt, line 2: expected a file and a class of wnids.txt, found "
                                 "'val_1.JPEG\tn03'"));
  text("val/val_annotations.txt", "val_0.JPEG\tn01\nval_1.JPEG\n");
  EXPECT_THAT(error(), HasSubstr("val_annotations.txt, line 2"));
}

}  // namespace
}  // namespace paceline
