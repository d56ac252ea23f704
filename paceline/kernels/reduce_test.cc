#include "paceline/kernels/reduce.h"

#include <gmock/gmock.h>

#include <vector>

#include "paceline/core/half.h"
#include "paceline/core/random.h"
#include "paceline/core/test_elements.h"

namespace paceline {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};

// Bytes of `count` small numbers of that type.
std::vector<std::byte> numbers(DType dtype, size_t count, uint64_t seed) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  const RandomKey key(seed);
  for (size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(key.with(i).value() % 2001) / 8 - 125;
    put({bytes.data(), count, dtype}, i, value);
  }
  return bytes;
}

class ReduceTest : public ::testing::TestWithParam<std::tuple<DType, int, size_t>> {};

TEST_P(ReduceTest, EqualsItsReferenceAlsoInPlace) {
  const auto [dtype, parts, count] = GetParam();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    std::vector<std::vector<std::byte>> buffers, copies;
    for (int part = 0; part < parts; ++part) buffers.push_back(numbers(dtype, count, part + 1));
    copies = buffers;
    std::vector<TensorView> views, expected;
    for (int part = 0; part < parts; ++part) {
      views.push_back({buffers[part].data(), count, dtype});
      expected.push_back({copies[part].data(), count, dtype});
    }
    reduce_many(views, views, op);
    reduce_many_reference(expected, expected, op);
    EXPECT_EQ(buffers, copies) << name_of(dtype) << " op " << static_cast<int>(op);
  }
}

INSTANTIATE_TEST_SUITE_P(TypesPartsCounts, ReduceTest,
                         ::testing::Combine(::testing::ValuesIn(kTypes), ::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(0, 1, 31, 33, 2048, 10'007)));

TEST(Reduce, OneBufferIsAddedToAnother) {
  std::vector<float> into = {1, 2, 3}, from = {10, 20, 30};
  reduce_into(view(into), view(from), ReduceOp::sum);
  EXPECT_THAT(into, ::testing::ElementsAre(11, 22, 33));
  reduce_into(view(into), view(from), ReduceOp::min);
  EXPECT_THAT(into, ::testing::ElementsAre(10, 20, 30));
}

TEST(Reduce, HalvesOfManyPartsAreRoundedOnce) {
  // 2048 + 1 + 1 is 2050 in f32; rounded at each addition, f16 would stay at 2048.
  std::vector<uint16_t> a = {f16_from_float(2048)}, b = {f16_from_float(1)}, c = {f16_from_float(1)};
  const TensorView parts[] = {{a.data(), 1, DType::f16}, {b.data(), 1, DType::f16}, {c.data(), 1, DType::f16}};
  reduce_many(parts, std::span(parts).first(1), ReduceOp::sum);
  EXPECT_EQ(float_from_f16(a[0]), 2050);
}

TEST(Reduce, BytesCannotBeReduced) {
  std::vector<uint8_t> bytes(4);
  EXPECT_THROW(reduce_into(view(bytes), view(bytes), ReduceOp::sum), InternalError);
}

}  // namespace
}  // namespace paceline
