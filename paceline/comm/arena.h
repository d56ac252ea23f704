// Arena: memory that all ranks of a host can reach, and its addresses in words that mean the same to each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "paceline/comm/memory.h"

namespace paceline {

struct Address {
  uint32_t owner = 0;    // whose memory it is: a rank among those that share the arena
  uint32_t segment = 0;  // which piece of it
  uint64_t offset = 0;
};

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  virtual ~Arena() = default;

  // Goes back to the arena, if that is still there.
  virtual Memory allocate(size_t bytes) = 0;
  // Nothing for memory that others cannot reach.
  virtual std::optional<Address> address_of(const void* data, size_t bytes) = 0;
  virtual void* resolve(Address address) = 0;

  // Keeps `memory` until `free` says that nobody reads it any more; looked at now and then.
  void retire(std::vector<Memory> memory, std::function<bool()> free);

 protected:
  void release_retired();

 private:
  struct Retired {
    std::vector<Memory> memory;
    std::function<bool()> free;
  };
  std::mutex mutex_;
  std::vector<Retired> retired_;
};

}  // namespace paceline
