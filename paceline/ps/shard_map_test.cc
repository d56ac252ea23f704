#include "paceline/ps/shard_map.h"

#include <gmock/gmock.h>

#include <set>

#include "paceline/core/error.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

constexpr uint64_t kBlock = ShardMap::kBlock;

std::vector<NamedLength> random_tensors(uint64_t seed) {
  const RandomKey key(seed);
  std::vector<NamedLength> tensors;
  const uint64_t count = 1 + key.below(0, 20);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t longest = key.below(3 * i + 1, 4) == 0 ? 10 * kBlock : 1000;
    tensors.push_back({std::to_string(i), key.below(3 * i + 2, longest), key.below(3 * i + 3, 2) == 0});
  }
  return tensors;
}

TEST(ShardMap, EveryElementLiesOnOneShardAndInOrder) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<NamedLength> tensors = random_tensors(seed);
    for (const int shards : {1, 2, 3, 7, 40}) {
      const ShardMap map(tensors, shards);
      size_t tensor = 0;
      uint64_t within = 0, position = 0;
      for (int shard = 0; shard < shards; ++shard) {
        EXPECT_EQ(map.first(shard), position);
        uint64_t offset = 0;
        for (const ShardMap::Piece& piece : map.pieces(shard)) {
          while (within == tensors[tensor].count) ++tensor, within = 0;
          EXPECT_EQ(piece.tensor, tensor);
          EXPECT_EQ(piece.begin, within);
          EXPECT_EQ(piece.offset, offset);
          EXPECT_GT(piece.count, 0u);
          within += piece.count;
          offset += piece.count;
          ASSERT_LE(within, tensors[tensor].count);
        }
        EXPECT_EQ(map.count(shard), offset);
        position += offset;
      }
      EXPECT_EQ(position, map.total());
    }
  }
}

TEST(ShardMap, CutsAtBlocksAndSharesThemEvenly) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const int shards : {2, 3, 7, 40}) {
      const ShardMap map(random_tensors(seed), shards);
      uint64_t least = ~uint64_t{0}, most = 0;
      for (int shard = 0; shard < shards; ++shard) {
        EXPECT_TRUE(map.first(shard) % kBlock == 0 || map.first(shard) == map.total());
        const uint64_t blocks = (map.count(shard) + kBlock - 1) / kBlock;
        least = std::min(least, blocks);
        most = std::max(most, blocks);
      }
      EXPECT_LE(most - least, 1u);
    }
  }
}

TEST(ShardMap, ALargeTensorIsCut) {
  const ShardMap map({{"bias", 10, false}, {"weight", 3 * kBlock, true}}, 2);
  EXPECT_EQ(map.pieces(0).size(), 2u);
  ASSERT_EQ(map.pieces(1).size(), 1u);
  const ShardMap::Piece piece = map.pieces(1)[0];
  EXPECT_EQ(piece.tensor, 1u);
  EXPECT_EQ(piece.begin, 2 * kBlock - 10);
  EXPECT_EQ(piece.count, kBlock + 10);
  EXPECT_EQ(piece.offset, 0u);
}

TEST(ShardMap, ASmallModelLeavesTheLastShardsEmpty) {
  const ShardMap map({{"weight", kBlock + 1, true}}, 4);
  EXPECT_EQ(map.count(0), kBlock);
  EXPECT_EQ(map.count(1), 1u);
  EXPECT_EQ(map.count(2), 0u);
  EXPECT_EQ(map.count(3), 0u);
  EXPECT_TRUE(map.pieces(3).empty());
  EXPECT_EQ(ShardMap({}, 3).count(0), 0u);
}

TEST(ShardMap, TheFingerprintTellsEveryDifference) {
  const std::vector<NamedLength> tensors = {{"a", 5, true}, {"b", 7, false}};
  const std::string fingerprint = ShardMap(tensors, 2).fingerprint();
  EXPECT_EQ(fingerprint.size(), 64u);
  EXPECT_EQ(ShardMap(tensors, 2).fingerprint(), fingerprint);
  std::set<std::string> all = {fingerprint, ShardMap(tensors, 3).fingerprint()};
  all.insert(ShardMap({{"a", 5, true}, {"b", 7, true}}, 2).fingerprint());
  all.insert(ShardMap({{"a", 5, true}, {"b", 8, false}}, 2).fingerprint());
  all.insert(ShardMap({{"a", 5, true}, {"c", 7, false}}, 2).fingerprint());
  all.insert(ShardMap({{"b", 7, false}, {"a", 5, true}}, 2).fingerprint());
  all.insert(ShardMap({{"a", 5, true}}, 2).fingerprint());
  all.insert(ShardMap({{"a 5 true\n1:b", 7, false}}, 2).fingerprint());
  EXPECT_EQ(all.size(), 8u);
}

TEST(ShardMap, WantsAShard) { EXPECT_THROW(ShardMap({}, 0), InternalError); }

}  // namespace
}  // namespace paceline
