// ChunkWork: what the command under way does to a chunk of a shard.
//
// It knows nothing but the file: after a restart it is made again and goes on. The bits of a chunk do not depend on
// other chunks, so they may be done in any order and at the same time.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "paceline/ps/server_update.h"
#include "paceline/ps/shard_file.h"

namespace paceline {

// Neighbouring elements that are updated alike.
struct UpdateRun {
  uint64_t begin = 0, count = 0;
  size_t tensor = 0;  // of lars, whose rate is the tensor's
  bool decayed = true;
};
std::vector<UpdateRun> update_runs(const ShardMap& map, int shard, const ServerUpdate& update);

class ChunkWork {
 public:
  // REQUIRES: file.next() is that of a command; all arguments stay.
  ChunkWork(const ShardFile& file, const ServerUpdate& update, std::span<const UpdateRun> runs);

  bool idle() const { return idle_; }                                             // no chunk changes
  std::span<float* const> changed() const { return {changed_.data(), arrays_}; }  // what must be undone
  void operator()(uint64_t chunk) const;  // REQUIRES: the chunk is as it was before the command

 private:
  void change(float* array) { changed_[arrays_++] = array; }
  template <class Body>
  void for_runs(uint64_t begin, uint64_t end, const Body& body) const;
  void accumulate(uint64_t begin, uint64_t count, ChunkMark& mark) const;
  void step(uint64_t begin, uint64_t count) const;

  const ShardFile& file_;
  const ServerUpdate& update_;
  std::span<const UpdateRun> runs_;
  Command command_;
  bool idle_ = false;
  bool by_tensor_;                   // lars: each has its rate
  bool first_ = false;               // accumulate: the round's first gradient, whose mean it is
  float share_ = 0;                  // of the gradient in the mean
  double merged_ = 0;                // factor of what is merged
  const float* gradient_ = nullptr;  // the staged one, or the mean
  float* parameters_ = nullptr;      // exchange: the worker's
  float* mean_ = nullptr;
  float* momentum_ = nullptr;
  std::array<float*, 2> states_ = {};
  size_t state_count_ = 0;
  std::optional<UpdateRule> rule_;
  std::array<float*, kMostChanged> changed_ = {};
  size_t arrays_ = 0;
};

}  // namespace paceline
