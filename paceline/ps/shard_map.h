// ShardMap: which part of a model's parameters lies on which server.
//
// Parameters are laid one behind the other and cut into as many runs of nearly equal length as there are shards, at
// multiples of kBlock elements: a large tensor may be cut, a small model may leave the last shards empty. A pure
// function of names, lengths and shards: servers and workers make the same map, and compare its fingerprint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

struct NamedLength {
  std::string name;
  uint64_t count = 0;
  bool decayed = true;  // weight decay and adaptation; not of biases and batch normalisation

  bool operator==(const NamedLength&) const = default;
};

class ShardMap {
 public:
  static constexpr uint64_t kBlock = 16384;  // elements: shards begin at multiples of it, 64 KiB

  // A piece of one tensor on one shard.
  struct Piece {
    size_t tensor = 0;   // index into tensors()
    uint64_t begin = 0;  // its first element within the tensor
    uint64_t count = 0;
    uint64_t offset = 0;  // where it lies within the shard, in elements
  };

  ShardMap(std::vector<NamedLength> tensors, int shards);

  int shards() const { return shards_; }
  const std::vector<NamedLength>& tensors() const { return tensors_; }
  uint64_t total() const { return total_; }  // elements of all tensors
  uint64_t first(int shard) const;           // global position of the shard's first element
  uint64_t count(int shard) const;           // elements of the shard
  std::vector<Piece> pieces(int shard) const;
  std::string fingerprint() const;  // SHA-256 of names, lengths, decay and shards, in hex

 private:
  std::vector<NamedLength> tensors_;
  int shards_;
  uint64_t total_ = 0;
};

}  // namespace paceline
