#include "paceline/comm/shared_messages.h"

#include <algorithm>

namespace paceline {

SharedMessages::SharedMessages(SharedBlock& block, int rank, int ranks, Arena& arena, Patience patience,
                               Mismatch mismatch, Stalled stalled, std::function<void(const std::string&)> give_up)
    : block_(block),
      rank_(rank),
      ranks_(ranks),
      arena_(arena),
      patience_(patience),
      mismatch_(std::move(mismatch)),
      stalled_(std::move(stalled)),
      give_up_(std::move(give_up)),
      sent_(ranks),
      taken_(ranks),
      rooms_(ranks),
      held_(2 * static_cast<size_t>(ranks)) {
  transfers_.reserve(64);  // more than any algorithm has under way: how many there are depends on timing
}

Work SharedMessages::start(bool sending, TensorView data, int peer, uint64_t code) {
  transfers_.push_back({.ticket = ++last_ticket_, .sending = sending, .peer = peer, .data = data, .code = code});
  const uint64_t ticket = last_ticket_;
  progress();
  if (Transfer* transfer = find(ticket); transfer->done) {
    forget(transfer);
    return {};
  }
  return {this, ticket};
}

SharedMessages::Transfer* SharedMessages::find(uint64_t ticket) {
  for (Transfer& transfer : transfers_)
    if (transfer.ticket == ticket) return &transfer;
  return nullptr;
}

void SharedMessages::forget(const Transfer* transfer) {
  transfers_.erase(transfers_.begin() + (transfer - transfers_.data()));
}

void SharedMessages::finish(uint64_t ticket) {
  const Transfer* const known = find(ticket);
  if (known == nullptr) return;  // poll() has said so
  const Transfer wanted = *known;
  std::optional<std::string> verdict;
  const bool came = patience_.wait_until(
      block_.slot(rank_).bed,
      [&] {
        progress();
        return find(ticket)->done;
      },
      [&](int64_t waited_ns) {
        verdict = stalled_(wanted.data, wanted.sending, wanted.peer, waited_ns);
        return verdict.has_value();
      });
  if (!came) give_up_(*verdict);
  forget(find(ticket));
}

bool SharedMessages::poll(uint64_t ticket) {
  progress();
  Transfer* const transfer = find(ticket);
  if (transfer == nullptr) return true;
  if (!transfer->done) return false;
  forget(transfer);
  return true;
}

void SharedMessages::progress() {
  std::fill(held_.begin(), held_.end(), false);
  for (Transfer& transfer : transfers_) {
    if (transfer.done) continue;
    std::vector<bool>::reference held = held_[2 * static_cast<size_t>(transfer.peer) + (transfer.sending ? 1 : 0)];
    if (transfer.sending) {
      if (!held || transfer.shown_as != 0) progress_send(transfer);
      if (!transfer.done && transfer.shown_as == 0) held = true;
    } else {
      if (!held) progress_receive(transfer);
      if (!transfer.done) held = true;
    }
  }
}

void SharedMessages::progress_send(Transfer& transfer) {
  Channel& to = channel(rank_, transfer.peer);
  const uint64_t taken = to.taken.load(std::memory_order_acquire);
  if (transfer.shown_as != 0) {
    transfer.done = taken >= transfer.shown_as;
    return;
  }
  const size_t bytes = transfer.data.bytes();
  uint64_t& sent = sent_[transfer.peer];
  auto* const data = static_cast<std::byte*>(transfer.data.data);
  while (sent - taken < Channel::kLetters) {
    if (bytes > kCopiedBytes && transfer.moved == 0) {
      if (const std::optional<Address> address = arena_.address_of(data, bytes)) {
        post(transfer, to, *address, bytes);
        transfer.shown_as = sent;
        return;
      }
    }
    const size_t piece = std::min(kPieceBytes, bytes - transfer.moved);
    std::byte* room = nullptr;
    const Address address = piece > 0 ? room_for_letter(transfer.peer, sent, room) : Address{};
    if (piece > 0) std::memcpy(room, data + transfer.moved, piece);
    post(transfer, to, address, piece);
    transfer.moved += piece;
    if (transfer.moved == bytes) {
      transfer.done = true;
      return;
    }
  }
}

void SharedMessages::post(Transfer& transfer, Channel& to, Address data, size_t bytes) {
  uint64_t& sent = sent_[transfer.peer];
  Letter& letter = to.letters[sent % Channel::kLetters];
  letter.code = transfer.code;
  letter.message_bytes = transfer.data.bytes();
  letter.bytes = bytes;
  letter.data = data;
  letter.number.store(++sent, std::memory_order_seq_cst);
  block_.slot(transfer.peer).bed.wake_if_asleep();
}

Address SharedMessages::room_for_letter(int to, uint64_t number, std::byte*& room) {
  Memory& rooms = rooms_[to];
  if (rooms.bytes() == 0) rooms = arena_.allocate(Channel::kLetters * kPieceBytes);
  room = static_cast<std::byte*>(rooms.data()) + number % Channel::kLetters * kPieceBytes;
  return *arena_.address_of(room, kPieceBytes);
}

void SharedMessages::progress_receive(Transfer& transfer) {
  Channel& from = channel(transfer.peer, rank_);
  uint64_t& taken = taken_[transfer.peer];
  const size_t bytes = transfer.data.bytes();
  for (;;) {
    const Letter& letter = from.letters[taken % Channel::kLetters];
    if (letter.number.load(std::memory_order_acquire) != taken + 1) return;
    if (letter.code != transfer.code || letter.message_bytes != bytes) return mismatch_(transfer.peer, bytes, letter);
    const size_t piece = letter.bytes;
    if (piece > 0)
      std::memcpy(static_cast<std::byte*>(transfer.data.data) + transfer.moved, arena_.resolve(letter.data), piece);
    from.taken.store(++taken, std::memory_order_seq_cst);
    block_.slot(transfer.peer).bed.wake_if_asleep();
    transfer.moved += piece;
    if (transfer.moved == bytes) {
      transfer.done = true;
      return;
    }
  }
}

}  // namespace paceline
