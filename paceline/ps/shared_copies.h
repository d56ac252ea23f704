// SharedCopies: parameters as they were at a moment, for as many connections as send them. Memory that nobody sends any
// more is used again: fresh pages for every copy of a large shard would take longer than the copy.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline {

class SharedCopies {
 public:
  using Copy = std::shared_ptr<std::vector<float>>;

  // `count` elements with any contents; yours until the last holder lets go, on any thread.
  Copy make(uint64_t count);

 private:
  static constexpr size_t kMostSpare = 3;
  struct Spare {
    std::mutex mutex;
    std::vector<std::unique_ptr<std::vector<float>>> copies;
  };
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();  // lives as long as the last copy
};

}  // namespace paceline
