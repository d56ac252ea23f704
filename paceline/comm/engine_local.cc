#include "paceline/comm/engine_local.h"

#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "paceline/comm/shared_group.h"

namespace paceline {
namespace {

// Threads see all of the process's memory, so that an address is a pointer.
class LocalArena : public Arena {
 public:
  explicit LocalArena(bool see_all_memory) : see_all_memory_(see_all_memory) {}

  Memory allocate(size_t bytes) override {
    release_retired();
    auto memory = std::make_shared<Memory>(allocate_private(bytes));
    void* const data = memory->data();
    const std::lock_guard lock(mutex_);
    ends_[static_cast<std::byte*>(data)] = static_cast<std::byte*>(data) + bytes;
    return {data, bytes, [weak = weak_from_this(), this, memory, data] {
              const std::shared_ptr<Arena> alive = weak.lock();
              if (!alive) return;
              const std::lock_guard guard(mutex_);
              ends_.erase(static_cast<std::byte*>(data));
            }};
  }

  std::optional<Address> address_of(const void* data, size_t bytes) override {
    if (!see_all_memory_ && !allocated_here(static_cast<const std::byte*>(data), bytes)) return std::nullopt;
    return Address{.offset = reinterpret_cast<uint64_t>(data)};
  }

  void* resolve(Address address) override { return reinterpret_cast<void*>(address.offset); }

 private:
  bool allocated_here(const std::byte* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto after = ends_.upper_bound(const_cast<std::byte*>(data));
    return after != ends_.begin() && data + bytes <= std::prev(after)->second;
  }

  const bool see_all_memory_;
  std::mutex mutex_;
  std::map<std::byte*, std::byte*> ends_;  // of allocated buffers, by their beginning
};

// What the threads of a run share.
struct LocalWorld {
  LocalWorld(int ranks, const LocalOptions& options)
      : topology(options.topology.value_or(Topology::one_host(ranks))),
        monitor(std::make_shared<Monitor>(options.timeout_ms)),
        arena(std::make_shared<LocalArena>(options.see_all_memory)),
        owned(arena->allocate(SharedBlock::bytes_for(ranks))),
        block(static_cast<SharedBlock*>(owned.data())) {}

  std::unique_ptr<Group> group(int rank) {
    GroupIdentity identity;
    identity.rank = rank;
    identity.engine = "local";
    identity.topology = topology;
    identity.world_ranks.resize(topology.ranks());
    std::iota(identity.world_ranks.begin(), identity.world_ranks.end(), 0);
    return std::make_unique<SharedGroup>(std::move(identity), monitor, arena, block,
                                         rank == 0 ? std::move(owned) : Memory());
  }

  Topology topology;
  std::shared_ptr<Monitor> monitor;
  std::shared_ptr<Arena> arena;
  Memory owned;  // by rank 0's group, once there is one
  SharedBlock* block;
};

// A PeerError only tells of another rank's failure: prefer the cause.
void rethrow_cause(const std::vector<std::exception_ptr>& failures) {
  std::exception_ptr consequence;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const PeerError&) {
      consequence = consequence ? consequence : failure;
    }
  }
  if (consequence) std::rethrow_exception(consequence);
}

}  // namespace

std::unique_ptr<Group> make_local_group() { return LocalWorld(1, {}).group(0); }

void run_ranks(int ranks, const std::function<void(Group&)>& body) { run_ranks(ranks, {}, body); }

void run_ranks(int ranks, const LocalOptions& options, const std::function<void(Group&)>& body) {
  LocalWorld world(ranks, options);
  CHECK_EQ(world.topology.ranks(), ranks);
  std::vector<std::exception_ptr> failures(ranks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const std::unique_ptr<Group> group = world.group(rank);
          body(*group);
        } catch (...) {
          failures[rank] = std::current_exception();
          world.monitor->alarm().raise(fmt::format("rank {} failed and will not arrive", rank));
        }
      });
    }
  }
  rethrow_cause(failures);
}

}  // namespace paceline
