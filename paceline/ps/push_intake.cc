#include "paceline/ps/push_intake.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "paceline/core/check.h"

namespace paceline {
namespace {

constexpr size_t kMostRuns = 65'536;  // of a push's segments that do not touch: bounds what a worker can make us keep

}  // namespace

PushIntake::PushIntake(Shard& shard, const std::string& codec) : shard_(shard), codec_(codec) {
  if (!builtin_codecs().at(codec)({})->fixed_length()) {
    throw UsageError(fmt::format(
        "gradients for a parameter server cannot be sent as '{}': choose none, fp16, bf16, int8 or onebit", codec));
  }
}

std::shared_ptr<PushIntake::Seat> PushIntake::seat_of(int worker) const {
  const std::lock_guard lock(mutex_);
  const auto found = seats_.find(worker);
  return found == seats_.end() ? nullptr : found->second;
}

void PushIntake::sit_down(int worker, uint64_t incarnation, std::shared_ptr<Connection> connection) {
  const auto seat = std::make_shared<Seat>();
  seat->incarnation = incarnation;
  seat->connection = std::move(connection);
  seat->codec = builtin_codecs().at(codec_)({});
  std::shared_ptr<Seat> before;
  {
    const std::lock_guard lock(mutex_);
    const auto found = seats_.find(worker);
    if (found != seats_.end()) before = found->second;
    if (before && before->incarnation != incarnation) {
      throw PeerError(fmt::format("worker {} is there already, at {}; give every worker its own number", worker,
                                  before->connection->peer()));
    }
    seats_[worker] = seat;
  }
  if (!before) return;
  const std::lock_guard lock(before->mutex);  // whoever writes for the old connection is done before the new one begins
  before->connection->close("this worker has a new connection");
  before->connection.reset();
}

void PushIntake::stand_up(int worker, const Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto found = seats_.find(worker);
  if (found != seats_.end() && found->second->connection.get() == connection) seats_.erase(found);
}

PushIntake::Target PushIntake::release(int worker, uint64_t sequence) {
  const auto seat = seat_of(worker);
  if (!seat) return {};
  const std::lock_guard lock(seat->mutex);
  seat->released = sequence;
  return {seat->connection, seat->incarnation};
}

uint64_t PushIntake::pushed_by(int worker) const {
  const std::lock_guard lock(mutex_);
  const auto found = pushed_by_.find(worker);
  return found == pushed_by_.end() ? 0 : found->second;
}

void PushIntake::forget(int worker) {
  if (const auto seat = seat_of(worker)) {
    const std::lock_guard lock(seat->mutex);
    if (seat->released > 0 && seat->connection)
      seat->connection->close("this worker has left, or was silent for too long");
    seat->released = 0;
    seat->whole.reset();
    seat->sequence = 0;
    shard_.forget(worker);
  } else {
    shard_.forget(worker);
  }
  const std::lock_guard lock(mutex_);
  pushed_by_.erase(worker);
}

std::optional<PushNews> PushIntake::take(int worker, const Connection* connection, const PushHead& head,
                                         const Body& body) {
  const auto seat = seat_of(worker);
  if (!seat) throw PeerError("this worker has another connection, or has left");
  const std::lock_guard lock(seat->mutex);
  if (seat->connection.get() != connection) throw PeerError("this worker has another connection");
  if (seat->released == 0) throw PeerError("a push of a worker that was given no parameters");
  const uint64_t sequence = head.push.sequence;
  if (sequence == 0) throw PeerError("pushes count from 1");
  if (head.offset > shard_.count() || head.count > shard_.count() - head.offset) {
    throw PeerError(fmt::format("a segment of elements {} to {} of a shard of {}", head.offset,
                                head.offset + head.count, shard_.count()));
  }
  if (head.last && (head.push.samples == 0 || !std::isfinite(head.push.rate))) {
    throw PeerError(fmt::format("a push of {} samples at rate {}", head.push.samples, head.push.rate));
  }

  // Sent again: what is there stays, it may be in use. Asked in this order: a push is finished before it is no longer
  // staged.
  if (shard_.has_staged(worker, sequence) || sequence <= shard_.finished(worker)) {
    if (!head.last) return {};
    seat->whole = head.push;
    seat->sequence = sequence;
    return head.push;
  }
  if (sequence != seat->released) {
    throw PeerError(
        fmt::format("worker {} pushed number {}, but its assignment is number {}", worker, sequence, seat->released));
  }
  if (sequence != seat->sequence) {
    seat->sequence = sequence;
    seat->arrived.clear();
    seat->whole.reset();
  }
  const std::span<float> place = shard_.stage(worker, sequence);
  if (!seat->arrived.add(head.offset, head.count)) {
    throw PeerError(
        fmt::format("elements {} to {} of push {} came twice", head.offset, head.offset + head.count, sequence));
  }
  if (seat->arrived.runs() > kMostRuns) throw PeerError("a push in too many pieces");
  decode(*seat, body, place.subspan(head.offset, head.count));
  if (!head.last) return {};
  if (seat->arrived.covered() != shard_.count()) {
    throw PeerError(
        fmt::format("push {} ended with {} of {} elements", sequence, seat->arrived.covered(), shard_.count()));
  }
  {
    const std::lock_guard noting(mutex_);
    pushed_by_[worker] = seat->incarnation;
  }
  shard_.staged(worker, sequence);
  seat->arrived.clear();
  seat->whole = head.push;
  return head.push;
}

void PushIntake::decode(Seat& seat, const Body& body, std::span<float> into) const {
  const bool plain = codec_ == "none";
  const size_t expected = plain ? into.size_bytes() : seat.codec->most_bytes(into.size());
  if (body.size() != expected) {
    throw PeerError(fmt::format("a segment of {} elements has {} bytes, not {}: do both sides use codec {}?",
                                into.size(), body.size(), expected, codec_));
  }
  if (into.empty()) return;
  if (plain) {
    body.copy_to(std::as_writable_bytes(into));
    return;
  }
  std::span<const std::byte> wire = body.pieces().front();
  if (body.pieces().size() > 1 || reinterpret_cast<uintptr_t>(wire.data()) % alignof(float) != 0) {
    seat.scratch.resize((expected + sizeof(float) - 1) / sizeof(float));
    const std::span<std::byte> whole = std::as_writable_bytes(std::span(seat.scratch)).first(expected);
    body.copy_to(whole);
    wire = whole;
  }
  seat.codec->decode(wire, into);
}

std::vector<PushIntake::Whole> PushIntake::whole() const {
  std::vector<std::pair<int, std::shared_ptr<Seat>>> seats;
  {
    const std::lock_guard lock(mutex_);
    seats.assign(seats_.begin(), seats_.end());
  }
  std::vector<Whole> pushes;
  for (const auto& [worker, seat] : seats) {
    const std::lock_guard lock(seat->mutex);
    if (seat->whole && seat->whole->sequence > shard_.finished(worker)) pushes.push_back({worker, *seat->whole});
  }
  return pushes;
}

std::vector<int> PushIntake::workers() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> workers;
  for (const auto& [worker, seat] : seats_) workers.push_back(worker);
  return workers;
}

}  // namespace paceline
