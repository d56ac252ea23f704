// Store: names and values that the ranks of a run share while they find each other.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

class Store {
 public:
  virtual ~Store() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until somebody has set it. Throws PeerError that names the key after `timeout_ms`.
  virtual std::string get(const std::string& key, int64_t timeout_ms) = 0;
};

}  // namespace paceline
