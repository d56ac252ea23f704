#include "paceline/precision/matrix_tiles.h"

#include <gtest/gtest.h>

#include "paceline/precision/autocast.h"

namespace paceline {
namespace {

constexpr uint32_t kTiles = 1u << 24;

TEST(MatrixTiles, AreUndescribedWhereTheirLeafIsMissingOrEmpty) {
  EXPECT_TRUE(tiles_are_undescribed({.last_leaf = 0x1c, .features = kTiles, .palettes = 0}));
  EXPECT_TRUE(tiles_are_undescribed({.last_leaf = 0x1c, .features = kTiles, .palettes = 1}));  // beyond the last leaf
  EXPECT_TRUE(tiles_are_undescribed({.last_leaf = 0x20, .features = kTiles, .palettes = 0}));
  EXPECT_FALSE(tiles_are_undescribed({.last_leaf = 0x20, .features = kTiles, .palettes = 1}));
}

TEST(MatrixTiles, AreNotMissedByProcessorsWithoutThem) {
  EXPECT_FALSE(tiles_are_undescribed({}));
  EXPECT_FALSE(tiles_are_undescribed({.last_leaf = 0x1c, .features = ~kTiles, .palettes = 0}));
  EXPECT_FALSE(tiles_are_undescribed({.last_leaf = 5, .features = kTiles, .palettes = 0}));
}

// Without the workaround the program ends here on a machine whose tiles are undescribed.
TEST(MatrixTiles, SixteenBitProductsRunOnThisMachine) {
  const torch::Tensor ones = torch::ones({64, 64});
  torch::Tensor product;
  {
    const Autocast autocast(torch::kCPU, torch::kBFloat16);
    product = torch::matmul(ones, ones);
  }
  EXPECT_EQ(product.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(product.to(torch::kFloat32), torch::full({64, 64}, 64.0f)));
}

}  // namespace
}  // namespace paceline
