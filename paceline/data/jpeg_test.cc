#include "paceline/data/jpeg.h"

#include <gmock/gmock.h>

#include "paceline/data/test_jpeg.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

constexpr ImageShape kShape = {.channels = 3, .height = 16, .width = 32};
constexpr size_t kPlane = 16 * 32;

Bytes decode(const std::filesystem::path& file) {
  Bytes planes(kShape.elements());
  decode_jpeg(file, kShape, planes);
  return planes;
}

Bytes plane(const Bytes& planes, size_t channel) {
  return {planes.begin() + static_cast<ptrdiff_t>(channel * kPlane),
          planes.begin() + static_cast<ptrdiff_t>((channel + 1) * kPlane)};
}

TEST(Jpeg, BecomesARedAGreenAndABluePlane) {
  const TestFolder folder;
  const Bytes planes = decode(write_bytes(folder.path() / "a.JPEG", plain_jpeg({200, 100, 30}, 32, 16)));
  EXPECT_THAT(plane(planes, 0), Each(AllOf(Ge(198), Le(202))));
  EXPECT_THAT(plane(planes, 1), Each(AllOf(Ge(98), Le(102))));
  EXPECT_THAT(plane(planes, 2), Each(AllOf(Ge(28), Le(32))));
}

TEST(Jpeg, KeepsRowsAndColumnsInTheirPlaces) {
  const TestFolder folder;
  Bytes pixels(32 * 16 * 3, 0);
  for (int y = 0; y < 8; ++y) {  // the upper right quarter is white: whole blocks, so that its edges are sharp
    for (int x = 16; x < 32; ++x) std::fill_n(pixels.begin() + 3 * (y * 32 + x), 3, 255);
  }
  const Bytes planes = decode(write_bytes(folder.path() / "a.JPEG", encode_jpeg(pixels, 32, 16, 3)));
  for (size_t i = 0; i < planes.size(); ++i) {
    const size_t y = i % kPlane / 32, x = i % 32;
    ASSERT_EQ(planes[i], y < 8 && x >= 16 ? 255 : 0) << "row " << y << ", column " << x;
  }
}

TEST(Jpeg, OfGreyHasThreeEqualPlanes) {
  const TestFolder folder;
  EXPECT_THAT(decode(write_bytes(folder.path() / "grey.JPEG", plain_jpeg({77}, 32, 16))), Each(77));
}

// Cut inside the image libjpeg only warns, and makes the rest up.
TEST(Jpeg, IsRefusedWhereverItIsCut) {
  const TestFolder folder;
  Bytes pixels(32 * 16);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
  const Bytes whole = encode_jpeg(pixels, 32, 16, 1);
  const auto path = write_bytes(folder.path() / "cut.JPEG", whole);
  EXPECT_NO_THROW(decode(path));
  for (size_t count = whole.size() - 2; count-- > 0;) {  // the last two bytes only say that this was the end
    std::filesystem::resize_file(path, count);
    ASSERT_THAT(data_error([&] { decode(path); }), HasSubstr("cut.JPEG: not a whole JPEG image (")) << count;
  }
}

TEST(Jpeg, IsRefusedWhenItIsNone) {
  const TestFolder folder;
  EXPECT_THAT(data_error([&] {
                decode(write_bytes(folder.path() / "a.JPEG", {'G', 'I', 'F', '8'}));
              }),
              AllOf(HasSubstr("a.JPEG: not a whole JPEG image (Not a JPEG file"), HasSubstr("fetch it again")));
  EXPECT_THAT(data_error([&] { decode(folder.path() / "none.JPEG"); }), HasSubstr("none.JPEG: there is no such file"));
}

TEST(Jpeg, IsRefusedWithColoursThatAreNotOfAScreen) {
  const TestFolder folder;
  EXPECT_THAT(data_error([&] {
                decode(write_bytes(folder.path() / "a.JPEG", plain_jpeg({1, 2, 3, 4}, 32, 16)));
              }),
              HasSubstr("a.JPEG: not a whole JPEG image (Unsupported color conversion"));
}

TEST(Jpeg, IsRefusedWithAnotherSize) {
  const TestFolder folder;
  EXPECT_THAT(data_error([&] {
                decode(write_bytes(folder.path() / "a.JPEG", plain_jpeg({1, 2, 3}, 16, 32)));
              }),
              HasSubstr("a.JPEG: expected an image of 32x16 pixels, found 16x32"));
}

}  // namespace
}  // namespace paceline
