// For tests: ranks as threads of this process that talk through Gloo at 127.0.0.1.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "paceline/comm/engine_gloo.h"

namespace paceline {

class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, int64_t timeout_ms) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return values_.contains(key); }))
      throw PeerError("nobody has set " + key);
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

inline GroupIdentity identity_of(int rank, const Topology& topology, const std::string& name = "world") {
  GroupIdentity identity = {.rank = rank, .engine = "gloo", .name = name, .topology = topology};
  for (int i = 0; i < topology.ranks(); ++i) identity.world_ranks.push_back(i);
  return identity;
}

// Each rank owns its group: to let it go is to leave. The first exception of any rank, in rank order, is rethrown.
inline void run_gloo_ranks(int ranks, int64_t timeout_ms, const std::function<void(std::unique_ptr<Group>)>& body) {
  MemoryStore store;
  std::vector<std::exception_ptr> failures(ranks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(make_gloo_group(identity_of(rank, Topology::one_host(ranks)), std::make_shared<Monitor>(timeout_ms),
                               store, "127.0.0.1"));
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace paceline
