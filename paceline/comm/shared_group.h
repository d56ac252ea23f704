// SharedGroup: a group whose ranks share memory, be they threads (engine_local) or processes (engine_shm).
//
// A meeting of all ranks costs each one store and p-1 loads of other ranks' lines; nothing is copied but what an
// algorithm copies.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "paceline/comm/diagnosis.h"
#include "paceline/comm/group.h"
#include "paceline/comm/shared_block.h"
#include "paceline/comm/shared_messages.h"

namespace paceline {

class SharedGroup : public Group, public SharedMemory {
 public:
  // `block` has room for SharedBlock::bytes_for(size) and is the same for all ranks; the one that owns its memory
  // passes it as `owned`.
  SharedGroup(GroupIdentity identity, std::shared_ptr<Monitor> monitor, std::shared_ptr<Arena> arena,
              SharedBlock* block, Memory owned);
  ~SharedGroup() override;

  Memory allocate(size_t bytes) override { return arena_->allocate(bytes); }
  SharedMemory* shared_memory() override { return topology().hosts() == 1 ? this : nullptr; }

  bool visible(TensorView data) const override;
  std::span<const TensorView> exchange(TensorView mine) override;
  void meet() override;
  TensorView staging(size_t count, DType dtype) override;

 protected:
  Work start_send(TensorView data, int to) override { return messages_.send(data, to, message_code()); }
  Work start_receive(TensorView data, int from) override { return messages_.receive(data, from, message_code()); }
  std::unique_ptr<Group> make_split(GroupIdentity identity, const std::vector<int>& members) override;
  void do_barrier() override { meet(); }

 private:
  void arrive(Address data);
  void await_all();
  void require_same_operation();
  Arrival& arrival(int rank) { return block_->slot(rank).arrivals[phase_ % 2]; }
  std::vector<RankStatus> statuses();
  // Why a wait that lasts will not end, if that is known; throws when the alarm was raised.
  std::optional<std::string> stalled(int64_t waited_ns);
  std::optional<std::string> message_stalled(TensorView data, bool sending, int peer, int64_t waited_ns);
  std::optional<std::string> judge(const RankStatus& mine, const std::vector<RankStatus>& all);
  void message_mismatch(int from, uint64_t wanted_bytes, const Letter& came);
  [[noreturn]] void raise(const std::string& text);

  std::shared_ptr<Arena> arena_;
  SharedBlock* const block_;
  Memory owned_;
  const Patience patience_;
  SharedMessages messages_;
  std::optional<Alarm::Listener> listener_;
  uint64_t phase_ = 0;
  std::vector<TensorView> shown_;  // what the last exchange showed
  Memory staging_[2];
  int staging_turn_ = 0;
};

}  // namespace paceline
