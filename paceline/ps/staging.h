// Staging: where gradients lie that workers have pushed, until a command says what becomes of them.
//
// A worker has one place, from its first push until it is forgotten. Thread-safe; what is written to a place is the
// business of whoever got it.
#pragma once

#include <mutex>
#include <span>

#include "paceline/ps/shard_file.h"

namespace paceline {

class Staging {
 public:
  explicit Staging(ShardFile& file) : file_(file) {}

  std::span<float> stage(int worker, uint64_t sequence);
  void staged(int worker, uint64_t sequence);
  bool has(int worker, uint64_t sequence) const;
  uint64_t finished(int worker) const;
  void forget(int worker);

  int place_of(int worker) const;                   // -1: it has none
  void finish(int place, uint64_t sequence) const;  // its gradient is needed no longer. Doing it again changes nothing

 private:
  ShardFile& file_;
  std::mutex taking_;  // of a place by a worker
};

}  // namespace paceline
