#include "paceline/comm/shared_group.h"

#include <bit>

#include "paceline/core/clock.h"

namespace paceline {
namespace {

// Before this a wait is ordinary; after it the others are asked what they do.
constexpr int64_t kPatientNs = 200'000'000;

}  // namespace

SharedGroup::SharedGroup(GroupIdentity identity, std::shared_ptr<Monitor> monitor, std::shared_ptr<Arena> arena,
                         SharedBlock* block, Memory owned)
    : Group(std::move(identity), std::move(monitor)),
      arena_(std::move(arena)),
      block_(block),
      owned_(std::move(owned)),
      patience_(size()),
      messages_(
          *block_, rank(), size(), *arena_, patience_,
          [this](int from, uint64_t wanted_bytes, const Letter& came) { message_mismatch(from, wanted_bytes, came); },
          [this](const TensorView& data, bool sending, int peer, int64_t waited_ns) {
            return message_stalled(data, sending, peer, waited_ns);
          },
          [this](const std::string& text) { raise(text); }),
      shown_(size()) {
  set_status_cell(&block_->slot(rank()).status);
  listener_.emplace(this->monitor().alarm(), [bed = &block_->slot(rank()).bed] { bed->wake(); });
}

// Others may still be reading what this rank showed them last: its memory waits until all are gone. The block itself
// goes last, when all the others know that.
SharedGroup::~SharedGroup() {
  set_status_cell(nullptr);
  listener_.reset();
  const bool owner = owned_.bytes() > 0;
  std::vector<Memory> kept = messages_.give_up_rooms();
  for (Memory& memory : staging_) kept.push_back(std::move(memory));
  kept.push_back(std::move(owned_));

  block_->slot(rank()).left.store(1, std::memory_order_seq_cst);
  for (int peer = 0; peer < size(); ++peer) block_->slot(peer).bed.wake_if_asleep();
  block_->slot(rank()).gone.store(1, std::memory_order_release);
  arena_->retire(std::move(kept), [block = block_, ranks = size(), owner] {
    for (int rank = 0; rank < ranks; ++rank)
      if (block->slot(rank).gone.load(std::memory_order_acquire) == 0) return false;
    if (owner) return block->released.load(std::memory_order_acquire) == static_cast<uint32_t>(ranks - 1);
    block->released.fetch_add(1, std::memory_order_release);
    return true;
  });
}

bool SharedGroup::visible(TensorView data) const { return arena_->address_of(data.data, data.bytes()).has_value(); }

std::span<const TensorView> SharedGroup::exchange(TensorView mine) {
  const std::optional<Address> address = arena_->address_of(mine.data, mine.bytes());
  CHECK_TRUE(address.has_value() || mine.count == 0, "rank {} shows a buffer that others cannot see", rank());
  arrive(address.value_or(Address{}));
  await_all();
  for (int peer = 0; peer < size(); ++peer) {
    shown_[peer] = mine;
    if (peer != rank() && mine.count > 0) shown_[peer].data = arena_->resolve(arrival(peer).data);
  }
  return shown_;
}

void SharedGroup::meet() {
  arrive({});
  await_all();
}

void SharedGroup::arrive(Address data) {
  ++phase_;
  Arrival& mine = arrival(rank());
  mine.code = message_code();
  mine.data = data;
  mine.phase.store(phase_, std::memory_order_seq_cst);
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank()) block_->slot(peer).bed.wake_if_asleep();
}

void SharedGroup::await_all() {
  int here = 0;  // ranks before this one have arrived
  std::optional<std::string> verdict;
  const bool came = patience_.wait_until(
      block_->slot(rank()).bed,
      [&] {
        while (here < size() && arrival(here).phase.load(std::memory_order_acquire) == phase_) ++here;
        return here == size();
      },
      [&](int64_t waited_ns) {
        verdict = stalled(waited_ns);
        return verdict.has_value();
      });
  if (!came) raise(*verdict);
  require_same_operation();
}

void SharedGroup::require_same_operation() {
  const uint64_t code = arrival(rank()).code;
  for (int peer = 0; peer < size(); ++peer) {
    if (arrival(peer).code == code) continue;
    // Everyone who arrived is still in its operation, so that the status cells tell what each one called.
    const std::vector<RankStatus> all = statuses();
    const auto verdict = diagnose(name(), all[rank()], all, monitor().timeout_ms());
    raise(verdict.value_or(
        fmt::format("rank {}: rank {} is in another operation than {}", rank(), peer, to_text(operation()))));
  }
}

TensorView SharedGroup::staging(size_t count, DType dtype) {
  Memory& room = staging_[staging_turn_];
  staging_turn_ = 1 - staging_turn_;
  const size_t bytes = count * size_of(dtype);
  if (bytes > room.bytes()) {
    room = {};
    room = arena_->allocate(std::bit_ceil(std::max<size_t>(bytes, 4096)));
  }
  return room.view(count, dtype);
}

// A block in memory of the first member, whose address the others learn from it.
std::unique_ptr<Group> SharedGroup::make_split(GroupIdentity identity, const std::vector<int>& members) {
  const int ranks = static_cast<int>(members.size());
  Memory owned;
  uint8_t mine[sizeof(Address)] = {};
  if (members[0] == rank()) {
    owned = arena_->allocate(SharedBlock::bytes_for(ranks));
    const Address address = *arena_->address_of(owned.data(), owned.bytes());
    std::memcpy(mine, &address, sizeof(address));
  }
  std::vector<uint8_t> all(sizeof(Address) * static_cast<size_t>(size()));
  do_all_gather({mine, sizeof(mine), DType::u8}, view(all));
  Address address;
  std::memcpy(&address, all.data() + sizeof(Address) * static_cast<size_t>(members[0]), sizeof(address));
  auto* const block = static_cast<SharedBlock*>(members[0] == rank() ? owned.data() : arena_->resolve(address));
  return std::make_unique<SharedGroup>(std::move(identity), shared_monitor(), arena_, block, std::move(owned));
}

std::vector<RankStatus> SharedGroup::statuses() {
  std::vector<RankStatus> all;
  const int64_t now_ns = SteadyClock().now_ns();
  for (int peer = 0; peer < size(); ++peer) {
    RankSlot& slot = block_->slot(peer);
    const StatusCell::Reading reading = slot.status.read();
    RankStatus status = {.rank = peer, .operation = reading.operation};
    status.set_work(reading.life, now_ns);
    if (reading.life.beat_ns > 0) status.silent_ms = std::max<int64_t>((now_ns - reading.life.beat_ns) / 1'000'000, 0);
    status.for_ms = reading.since_ns > 0 ? (now_ns - reading.since_ns) / 1'000'000 : 0;
    if (slot.left.load(std::memory_order_acquire) != 0) {
      status.state = RankStatus::State::ended;
    } else if (reading.busy) {
      status.state = RankStatus::State::busy;
    } else {
      status.state = RankStatus::State::idle;
    }
    all.push_back(status);
  }
  return all;
}

std::optional<std::string> SharedGroup::stalled(int64_t waited_ns) {
  if (monitor().alarm().raised()) monitor().alarm().fail();
  if (waited_ns < kPatientNs) return std::nullopt;
  const std::vector<RankStatus> all = statuses();
  return judge(all[rank()], all);
}

std::optional<std::string> SharedGroup::judge(const RankStatus& mine, const std::vector<RankStatus>& all) {
  const int64_t timeout_ms = monitor().timeout_ms();
  if (const auto excuse = find_excuse(mine, all, timeout_ms)) monitor().excuse(*excuse);
  return diagnose(name(), mine, all, timeout_ms);
}

std::optional<std::string> SharedGroup::message_stalled(TensorView data, bool sending, int peer, int64_t waited_ns) {
  if (status_cell().read().busy) return stalled(waited_ns);  // part of an operation
  if (monitor().alarm().raised()) monitor().alarm().fail();
  if (waited_ns < kPatientNs) return std::nullopt;
  const RankStatus mine = {
      .rank = rank(),
      .state = RankStatus::State::busy,
      .operation = {sending ? Verb::send : Verb::receive, data.dtype, ReduceOp::sum, peer, data.count},
      .for_ms = waited_ns / 1'000'000};
  return judge(mine, statuses());
}

void SharedGroup::message_mismatch(int from, uint64_t wanted_bytes, const Letter& came) {
  if (follows_another()) return;  // the watchdog knows the whole's operations, and will tell
  const std::vector<RankStatus> all = statuses();
  if (all[rank()].state == RankStatus::State::busy)
    if (const auto verdict = diagnose(name(), all[rank()], all, monitor().timeout_ms())) raise(*verdict);
  raise(
      fmt::format("rank {}: expected {} bytes from rank {}, but it sent {}{}; every rank must call the same operations "
                  "in the same order with the same counts and types",
                  rank(), wanted_bytes, from, came.message_bytes,
                  came.message_bytes == wanted_bytes ? " of another operation" : ""));
}

void SharedGroup::raise(const std::string& text) {
  monitor().alarm().raise(text);
  throw PeerError(text);
}

}  // namespace paceline
