// WholeNorms: the norms of whole tensors for LARS, summed over shards in their order. The last sum is kept in a file: a
// shard that was killed may need it after all others have gone on, and could not add it up any more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "paceline/kernels/lars.h"

namespace paceline {

class WholeNorms {
 public:
  WholeNorms(std::filesystem::path file, int shards);

  // A shard's part for a command. True when the sum is there: it is index()'s. Throws PeerError for parts of different
  // lengths. REQUIRES: index >= index(): no shard needs an older one
  bool add(int shard, uint64_t index, std::vector<SquaredNorms> part);
  uint64_t index() const { return index_; }  // of the command that sum() is for; 0: none yet
  const std::vector<SquaredNorms>& sum() const { return sum_; }

 private:
  void write() const;

  const std::filesystem::path file_;
  const int shards_;
  uint64_t index_ = 0;
  std::vector<SquaredNorms> sum_;
  uint64_t next_ = 0;  // the command whose parts come in
  std::map<int, std::vector<SquaredNorms>> parts_;
};

}  // namespace paceline
