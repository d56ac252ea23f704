// SharedMessages: sends and receives between ranks that share memory. No thread moves them: whoever waits moves all
// that this rank has under way, so that two ranks which send to each other at once do not wait for ever.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/comm/arena.h"
#include "paceline/comm/shared_block.h"
#include "paceline/comm/work.h"
#include "paceline/core/tensor_view.h"

namespace paceline {

class SharedMessages : public Work::Engine {
 public:
  // A letter of another operation or size has come where `wanted` was to. Throws, or leaves it there.
  using Mismatch = std::function<void(int from, uint64_t wanted_bytes, const Letter& came)>;
  // A wait lasts: why it will not end, if that is known. May throw.
  using Stalled =
      std::function<std::optional<std::string>(const TensorView& data, bool sending, int peer, int64_t waited_ns)>;

  SharedMessages(SharedBlock& block, int rank, int ranks, Arena& arena, Patience patience, Mismatch mismatch,
                 Stalled stalled, std::function<void(const std::string&)> give_up);

  Work send(TensorView data, int to, uint64_t code) { return start(true, data, to, code); }
  Work receive(TensorView data, int from, uint64_t code) { return start(false, data, from, code); }

  void finish(uint64_t ticket) override;
  bool poll(uint64_t ticket) override;

  // The room of letters that others may still have to read.
  std::vector<Memory> give_up_rooms() { return std::move(rooms_); }

 private:
  static constexpr size_t kPieceBytes = 64 * 1024;
  // A small message is copied even if the receiver could read it where it lies: the sender need not wait for that.
  static constexpr size_t kCopiedBytes = 8 * 1024;

  struct Transfer {
    uint64_t ticket;
    bool sending;
    int peer;
    TensorView data;
    uint64_t code;
    size_t moved = 0;
    uint64_t shown_as = 0;  // the letter that shows the whole buffer; done when it is taken
    bool done = false;
  };

  Work start(bool sending, TensorView data, int peer, uint64_t code);
  Transfer* find(uint64_t ticket);
  void forget(const Transfer* transfer);
  void progress();
  void progress_send(Transfer& transfer);
  void progress_receive(Transfer& transfer);
  void post(Transfer& transfer, Channel& channel, Address data, size_t bytes);
  Address room_for_letter(int to, uint64_t number, std::byte*& room);
  Channel& channel(int from, int to) { return block_.channel(from, to, ranks_); }

  SharedBlock& block_;
  const int rank_;
  const int ranks_;
  Arena& arena_;
  const Patience patience_;
  const Mismatch mismatch_;
  const Stalled stalled_;
  const std::function<void(const std::string&)> give_up_;  // throws

  uint64_t last_ticket_ = 0;
  std::vector<Transfer> transfers_;  // in the order of their calls
  std::vector<uint64_t> sent_;       // letters, per receiver
  std::vector<uint64_t> taken_;      // letters, per sender
  std::vector<Memory> rooms_;        // per receiver, for copied messages; made when first needed
  std::vector<bool> held_;           // per direction and peer: an earlier transfer must go first
};

}  // namespace paceline
