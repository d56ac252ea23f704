#include "paceline/ps/shard_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/core/sha256.h"

namespace paceline {

ShardMap::ShardMap(std::vector<NamedLength> tensors, int shards) : tensors_(std::move(tensors)), shards_(shards) {
  CHECK_GE(shards, 1);
  for (const NamedLength& tensor : tensors_) total_ += tensor.count;
}

uint64_t ShardMap::first(int shard) const {
  CHECK_TRUE(shard >= 0 && shard <= shards_, "shard {} of {}", shard, shards_);
  const auto place = static_cast<uint64_t>(shard), places = static_cast<uint64_t>(shards_);
  const uint64_t blocks = (total_ + kBlock - 1) / kBlock;
  // The first ones have one block more where they cannot all have as many.
  const uint64_t block = blocks / places * place + std::min(place, blocks % places);
  return std::min(block * kBlock, total_);
}

uint64_t ShardMap::count(int shard) const { return first(shard + 1) - first(shard); }

std::vector<ShardMap::Piece> ShardMap::pieces(int shard) const {
  const uint64_t begin = first(shard), end = first(shard + 1);
  std::vector<Piece> pieces;
  uint64_t at = 0;  // global position of the tensor
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const uint64_t from = std::max(at, begin), to = std::min(at + tensors_[i].count, end);
    if (from < to) pieces.push_back({.tensor = i, .begin = from - at, .count = to - from, .offset = from - begin});
    at += tensors_[i].count;
  }
  return pieces;
}

std::string ShardMap::fingerprint() const {
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.update(text.data(), text.size()); };
  add(fmt::format("shard map 1, {} tensors on {} shards of blocks of {}\n", tensors_.size(), shards_, kBlock));
  for (const NamedLength& tensor : tensors_) {
    // The name's length before the name: no two lists of tensors give the same text.
    add(fmt::format("{}:{} {} {}\n", tensor.name.size(), tensor.name, tensor.count, tensor.decayed));
  }
  return hash.hex();
}

}  // namespace paceline
