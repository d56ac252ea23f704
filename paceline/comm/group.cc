// The verbs that every engine has, made of messages, and the counting of operations.
#include "paceline/comm/group.h"

#include <bit>

#include "paceline/kernels/reduce.h"

namespace paceline {
namespace {

uint64_t code_of_text(const std::string& text) {  // FNV-1a: the same in every process
  uint64_t code = 0xcbf29ce484222325u;
  for (const char letter : text) code = (code ^ static_cast<uint8_t>(letter)) * 0x100000001b3u;
  return code;
}

constexpr TensorView kNothing = {nullptr, 0, DType::u8};

}  // namespace

Group::Group(GroupIdentity identity, std::shared_ptr<Monitor> monitor)
    : identity_(std::move(identity)),
      monitor_(std::move(monitor)),
      record_(monitor_->recorder().add_group(identity_.name)),
      group_code_(code_of_text(identity_.name) ^ (identity_.generation * 0x9e3779b97f4a7c15u)) {
  CHECK_EQ(identity_.topology.ranks(), size());
  CHECK_LT(rank(), size());
  monitor_->add({identity_.name, identity_.world_ranks, identity_.rank, status_});
}

Group::~Group() { monitor_->remove(status_); }

void Group::set_status_cell(StatusCell* cell) {
  monitor_->remove(status_);
  status_ = cell != nullptr ? cell : &own_status_;
  monitor_->add({identity_.name, identity_.world_ranks, identity_.rank, status_});
}

Memory Group::allocate(size_t bytes) { return allocate_private(bytes); }

TensorView Group::scratch(size_t count, DType dtype) {
  const size_t bytes = count * size_of(dtype);
  if (bytes > scratch_.bytes()) {
    scratch_ = {};
    scratch_ = allocate(std::bit_ceil(bytes));
  }
  return scratch_.view(count, dtype);
}

void Group::reduce_local(TensorView into, TensorView from, ReduceOp op) { reduce_into(into, from, op); }

Work Group::send(TensorView data, int to) {
  CHECK_TRUE(to >= 0 && to < size() && to != rank(), "rank {} of {} cannot send to {}", rank(), size(), to);
  return start_send(data, to);
}

Work Group::receive(TensorView data, int from) {
  CHECK_TRUE(from >= 0 && from < size() && from != rank(), "rank {} of {} cannot receive from {}", rank(), size(),
             from);
  return start_receive(data, from);
}

void Group::barrier() {
  perform(Verb::barrier, kNothing, ReduceOp::sum, -1, [&] { do_barrier(); });
}

void Group::broadcast(TensorView data, int root) {
  CHECK_TRUE(root >= 0 && root < size(), "root {} of {} ranks", root, size());
  perform(Verb::broadcast, data, ReduceOp::sum, root, [&] { do_broadcast(data, root); });
}

void Group::all_gather(TensorView mine, TensorView all) {
  CHECK_EQ(all.count, mine.count * static_cast<size_t>(size()));
  CHECK_EQ(name_of(all.dtype), name_of(mine.dtype));
  perform(Verb::all_gather, mine, ReduceOp::sum, -1, [&] { do_all_gather(mine, all); });
}

void Group::all_to_all(std::span<const TensorView> from, std::span<const TensorView> to) {
  CHECK_EQ(from.size(), static_cast<size_t>(size()));
  CHECK_EQ(to.size(), static_cast<size_t>(size()));
  perform(Verb::all_to_all, kNothing, ReduceOp::sum, -1, [&] { do_all_to_all(from, to); });
}

void Group::native_all_reduce(TensorView, ReduceOp) {
  CHECK_TRUE(false, "the {} engine has no all-reduce of its own", engine());
}

std::unique_ptr<Group> Group::split(int color, int key) {
  std::unique_ptr<Group> part;
  perform(Verb::split, kNothing, ReduceOp::sum, -1, [&] {
    const int32_t mine[] = {color, key};
    std::vector<int32_t> all(2 * static_cast<size_t>(size()));
    do_all_gather({const_cast<int32_t*>(mine), 2, DType::i32}, view(all));
    std::vector<int> members;
    for (int peer = 0; peer < size(); ++peer)
      if (all[2 * peer] == color) members.push_back(peer);
    std::ranges::stable_sort(members, {}, [&](int member) { return all[2 * member + 1]; });

    GroupIdentity identity = identity_;
    identity.name = fmt::format("{}/{}:{}", identity_.name, splits_++, color);
    identity.world_ranks.clear();
    for (const int member : members) identity.world_ranks.push_back(identity_.world_ranks[member]);
    identity.rank = static_cast<int>(std::ranges::find(members, rank()) - members.begin());
    identity.topology = identity_.topology.of(members);
    part = make_split(std::move(identity), members);
  });
  return part;
}

uint64_t Group::message_code() const {
  if (inside_) {
    if (operation_code_ == 0) operation_code_ = code_of(operation_) ^ group_code_;
    return operation_code_;
  }
  return whole_ != nullptr ? whole_->message_code() : group_code_;
}

bool Group::fail(const std::string& why) {
  inside_ = false;  // the status stays busy: that is what others are to see
  record_->end(FlightRecord::State::failed, clock_.now_ns());
  return monitor_->report_failure(why);
}

// Dissemination: ceil(log2 p) rounds; in round k a rank hears from the one 2^k before it.
void Group::do_barrier() {
  for (int distance = 1; distance < size(); distance *= 2) {
    Work heard = receive(kNothing, (rank() + size() - distance) % size());
    Work said = send(kNothing, (rank() + distance) % size());
    heard.wait();
    said.wait();
  }
}

// Binomial tree: ceil(log2 p) steps. Ranks are counted from the root.
void Group::do_broadcast(TensorView data, int root) {
  const int place = (rank() + size() - root) % size();
  auto rank_at = [&](int other_place) { return (other_place + root) % size(); };
  int distance = 1;
  while (distance <= place) distance *= 2;  // the parent is `distance/2` places before
  if (place > 0) receive(data, rank_at(place - distance / 2)).wait();
  std::vector<Work>& sends = works_;
  sends.clear();
  for (; place + distance < size(); distance *= 2) sends.push_back(send(data, rank_at(place + distance)));
  for (Work& sent : sends) sent.wait();
}

// Ring: p-1 steps; every rank passes on what it got last.
void Group::do_all_gather(TensorView mine, TensorView all) {
  auto part = [&](int owner) { return all.slice(mine.count * static_cast<size_t>(owner), mine.count); };
  if (part(rank()).data != mine.data) copy_bytes(part(rank()), mine);
  const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  for (int step = 0; step < size() - 1; ++step) {
    Work received = receive(part((rank() + size() - step - 1) % size()), previous);
    Work sent = send(part((rank() + size() - step) % size()), next);
    received.wait();
    sent.wait();
  }
}

// Pairwise: in step k with the ranks k places away, so that no two send to the same one at a time.
void Group::do_all_to_all(std::span<const TensorView> from, std::span<const TensorView> to) {
  copy_bytes(to[rank()], from[rank()]);
  for (int step = 1; step < size(); ++step) {
    const int target = (rank() + step) % size(), source = (rank() + size() - step) % size();
    Work received = receive(to[source], source);
    Work sent = send(from[target], target);
    received.wait();
    sent.wait();
  }
}

}  // namespace paceline
