#include "paceline/core/tensor_view.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(TensorView, KnowsTheBytesOfEveryDType) {
  EXPECT_EQ((TensorView{nullptr, 3, DType::f32}.bytes()), 12u);
  EXPECT_EQ((TensorView{nullptr, 3, DType::f16}.bytes()), 6u);
  EXPECT_EQ((TensorView{nullptr, 3, DType::bf16}.bytes()), 6u);
  EXPECT_EQ((TensorView{nullptr, 3, DType::i32}.bytes()), 12u);
  EXPECT_EQ((TensorView{nullptr, 3, DType::i64}.bytes()), 24u);
  EXPECT_EQ((TensorView{nullptr, 3, DType::u8}.bytes()), 3u);
}

TEST(TensorView, NamesEveryDType) {
  EXPECT_EQ(name_of(DType::f32), "f32");
  EXPECT_EQ(name_of(DType::f16), "f16");
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::i32), "i32");
  EXPECT_EQ(name_of(DType::i64), "i64");
  EXPECT_EQ(name_of(DType::u8), "u8");
}

TEST(TensorView, SeesTheElementsOfAVector) {
  std::vector<int64_t> elements = {1, 2, 3};
  const TensorView whole = view(elements);
  EXPECT_EQ(whole.dtype, DType::i64);
  EXPECT_EQ(whole.as<int64_t>().data(), elements.data());
  EXPECT_EQ(whole.as<int64_t>().size(), 3u);
}

TEST(TensorView, RefusesAnotherElementType) {
  std::vector<float> elements(2);
  EXPECT_THROW(view(elements).as<int32_t>(), InternalError);
}

TEST(TensorView, SliceIsCountedInElementsAndKeepsTheRest) {
  std::vector<float> elements = {0, 1, 2, 3, 4};
  TensorView whole = view(elements);
  int stream = 0;
  whole.stream = &stream;
  const TensorView part = whole.slice(2, 3);
  EXPECT_EQ(part.as<float>().data(), elements.data() + 2);
  EXPECT_EQ(part.count, 3u);
  EXPECT_EQ(part.stream, &stream);
  EXPECT_EQ(whole.first(2).as<float>()[1], 1.0f);
}

TEST(TensorView, SliceMayBeEmptyAndMayNotReachBeyondTheEnd) {
  std::vector<float> elements(5);
  const TensorView whole = view(elements);
  EXPECT_EQ(whole.slice(5, 0).count, 0u);
  EXPECT_THROW(whole.slice(6, 0), InternalError);
  EXPECT_THROW(whole.slice(2, 4), InternalError);
  EXPECT_THROW(whole.slice(1, ~size_t{0}), InternalError);  // no overflow of offset + length
}

TEST(Chunk, CoversEverythingOnceInOrderWithTheLargestFirst) {
  for (const size_t count : {0u, 1u, 2u, 7u, 64u, 1000u}) {
    std::vector<uint8_t> elements(count);
    const TensorView whole = view(elements);
    for (size_t parts = 1; parts <= 9; ++parts) {
      const auto* next = elements.data();
      for (size_t index = 0; index < parts; ++index) {
        const TensorView part = chunk(whole, index, parts);
        EXPECT_EQ(part.data, next);
        EXPECT_LE(part.count, chunk(whole, 0, parts).count);
        EXPECT_GE(part.count + 1, chunk(whole, 0, parts).count);
        next += part.count;
      }
      EXPECT_EQ(next, elements.data() + count) << count << " in " << parts;
    }
  }
}

TEST(Chunk, RefusesAnIndexBeyondTheParts) {
  std::vector<float> elements(4);
  EXPECT_THROW(chunk(view(elements), 2, 2), InternalError);
  EXPECT_THROW(chunk(view(elements), 0, 0), InternalError);
}

}  // namespace
}  // namespace paceline
