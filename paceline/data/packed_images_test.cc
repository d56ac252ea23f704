#include "paceline/data/packed_images.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "paceline/core/usable_cores.h"
#include "paceline/data/test_files.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const PackedContents kContents = {.shape = {3, 2, 2}, .count = 5, .fingerprint = "abc"};

// Pixel j of image i is 20 i + j.
void decode(size_t index, std::span<uint8_t> pixels) {
  for (size_t j = 0; j < pixels.size(); ++j) pixels[j] = static_cast<uint8_t>(20 * index + j);
}

void refuse(size_t, std::span<uint8_t>) { throw DataError("decoded again"); }

void expect_images(const PackedImages& images) {
  ASSERT_EQ(images.count(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    Bytes expected(12);
    decode(i, expected);
    EXPECT_THAT(images.image(i), testing::ElementsAreArray(expected));
  }
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST(PackedImages, AreDecodedOnceAndThenMapped) {
  const TestFolder folder;
  const fs::path place = folder.path() / "a.images";
  expect_images(*open_packed_images({place}, kContents, decode));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.images"));
  EXPECT_EQ(fs::file_size(place), 4096u + 5 * 12);
  expect_images(*open_packed_images({place}, kContents, refuse));
}

TEST(PackedImages, AreDecodedAgainForAnotherSourceCountOrShape) {
  for (const PackedContents& other : {PackedContents{{3, 2, 2}, 5, "abd"}, PackedContents{{3, 2, 2}, 4, "abc"},
                                      PackedContents{{2, 3, 2}, 5, "abc"}}) {
    const TestFolder folder;
    const fs::path place = folder.path() / "a.images";
    open_packed_images({place}, other, decode);
    EXPECT_EQ(PackedImages::map(place, kContents), nullptr);
    expect_images(*open_packed_images({place}, kContents, decode));
    expect_images(*open_packed_images({place}, kContents, refuse));
  }
}

TEST(PackedImages, AreDecodedAgainWhenTheFileIsDamaged) {
  const TestFolder folder;
  const fs::path place = folder.path() / "a.images";
  open_packed_images({place}, kContents, decode);
  const uint64_t bytes = fs::file_size(place);
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{100}, bytes - 1, bytes + 1}) {
    fs::resize_file(place, wrong);
    EXPECT_EQ(PackedImages::map(place, kContents), nullptr) << wrong;
    expect_images(*open_packed_images({place}, kContents, decode));
    EXPECT_EQ(fs::file_size(place), bytes);
  }
  std::fstream(place, std::ios::in | std::ios::out | std::ios::binary).seekp(4000).put('x');
  EXPECT_EQ(PackedImages::map(place, kContents), nullptr);
}

TEST(PackedImages, StayAsTheyAreWhenTheFileIsReplaced) {
  const TestFolder folder;
  const fs::path place = folder.path() / "a.images";
  const auto images = open_packed_images({place}, kContents, decode);
  open_packed_images({place}, {{3, 2, 2}, 5, "other"},
                     [](size_t, std::span<uint8_t> pixels) { std::ranges::fill(pixels, uint8_t{0}); });
  expect_images(*images);
}

TEST(PackedImages, GoToTheFirstPlaceThatTakesThem) {
  const TestFolder folder;
  write_bytes(folder.path() / "file", {});
  fs::create_directories(folder.path() / "taken.images" / "inside");
  const fs::path under_a_file = folder.path() / "file" / "a.images", a_folder = folder.path() / "taken.images",
                 free = folder.path() / "new" / "folder" / "a.images";
  expect_images(*open_packed_images({under_a_file, a_folder, free}, kContents, decode));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file", "new", "taken.images"));
  expect_images(*open_packed_images({under_a_file, a_folder, free}, kContents, refuse));
}

TEST(PackedImages, SayWhyNoPlaceTakesThem) {
  const TestFolder folder;
  write_bytes(folder.path() / "file", {});
  try {
    open_packed_images({folder.path() / "file" / "a.images"}, kContents, decode);
    FAIL() << "no FileError was thrown";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("there is no place for 0 MB of decoded images: cannot create folder"),
                                    HasSubstr((folder.path() / "file").string()), HasSubstr("XDG_CACHE_HOME")));
  }
}

TEST(PackedImages, DoNotFillADisk) {
  const TestFolder folder;
  const PackedContents huge = {.shape = {3, 1 << 14, 1 << 14}, .count = size_t{1} << 32, .fingerprint = ""};  // 3 EiB
  try {
    open_packed_images({folder.path() / "a.images"}, huge, refuse);
    FAIL() << "no FileError was thrown";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has room for"));
  }
}

TEST(PackedImages, ThatCannotAllBeDecodedLeaveNothingBehind) {
  const TestFolder folder;
  for (int i = 0; i < 20; ++i) {  // whichever of two threads is first
    std::atomic<bool> another = cores_of(usable_cores()) < 2;
    const auto decode_some = [&](size_t index, std::span<uint8_t> pixels) {
      if (index < 2) return decode(index, pixels);
      if (index == 3) another = true;
      another.wait(false);
      another.notify_all();
      throw DataError("image " + std::to_string(index));
    };
    EXPECT_EQ(data_error([&] { open_packed_images({folder.path() / "a.images"}, kContents, decode_some); }), "image 2");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(PackedImages, ClearAwayWhatAKilledProcessLeft) {
  const TestFolder folder;
  write_bytes(folder.path() / "a.images.writing-1-0", {1});
  write_bytes(folder.path() / "b.images.writing-1-0", {1});
  open_packed_images({folder.path() / "a.images"}, kContents, decode);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.images", "b.images.writing-1-0"));
}

TEST(PackedImages, OpenedAtOnceAreDecodedByOne) {
  const TestFolder folder;
  std::atomic<int> decoded = 0;
  std::vector<std::shared_ptr<const PackedImages>> images(6);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : images) {
      threads.emplace_back([&] {
        mine =
            open_packed_images({folder.path() / "a.images"}, kContents, [&](size_t index, std::span<uint8_t> pixels) {
              ++decoded;
              decode(index, pixels);
            });
      });
    }
  }
  for (const auto& mine : images) expect_images(*mine);
  EXPECT_EQ(decoded, 5);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.images"));
}

TEST(PackedDataset, IsARangeOfTheImages) {
  const TestFolder folder;
  const auto images = open_packed_images({folder.path() / "a.images"}, kContents, decode);
  const PackedDataset data(images, 2, {7, 0}, 8);
  EXPECT_EQ(data.size(), 2u);
  EXPECT_EQ(data.classes(), 8);
  EXPECT_EQ(data.shape(), kContents.shape);
  EXPECT_EQ(data.label(0), 7);
  EXPECT_EQ(data.image(1, {})[0], 60);
  EXPECT_THROW(data.image(2, {}), InternalError);
  EXPECT_THROW(PackedDataset(images, 4, {0, 0}, 1), InternalError);
}

}  // namespace
}  // namespace paceline
