#include "paceline/comm/engine_shm.h"

#include "paceline/comm/segment_arena.h"
#include "paceline/comm/shared_group.h"

namespace paceline {

// The group's first rank makes the control file and says its name.
std::unique_ptr<Group> make_shm_group(GroupIdentity identity, std::shared_ptr<Monitor> monitor, Store& store,
                                      const std::string& job) {
  const int ranks = static_cast<int>(identity.world_ranks.size());
  const std::string key = fmt::format("shm/{}/{}", identity.generation, identity.world_ranks[0]);
  std::shared_ptr<SegmentArena> arena;
  if (identity.rank == 0) {
    remove_stale_segments();
    arena = SegmentArena::create(job, ranks, SharedBlock::bytes_for(ranks));
    store.set(key, arena->name());
  } else {
    arena = SegmentArena::open(store.get(key, monitor->timeout_ms()), identity.rank, ranks);
  }
  auto* const block = static_cast<SharedBlock*>(arena->control());
  auto group =
      std::make_unique<SharedGroup>(std::move(identity), std::move(monitor), std::move(arena), block, Memory());
  group->barrier();  // nobody may leave, and so remove the control file, before all have opened it
  return group;
}

}  // namespace paceline
