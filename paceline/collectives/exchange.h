// ExchangeSequence: messages with one peer after another, each out and in at the same time. The halves of
// halving-doubling and the branches of a tree are such sequences; what is said here once is how to run them well:
// the next receive is posted before this one is waited for, and a large message is added while its rest travels.
#pragma once

#include <array>

#include "paceline/collectives/pieces.h"
#include "paceline/comm/group.h"

namespace paceline {

struct Exchange {
  enum class Arrival : uint8_t { replaces, is_added };
  int peer = 0;
  TensorView out;  // no elements: nothing is sent
  TensorView in;   // no elements: nothing is received
  Arrival arrival = Arrival::replaces;
};

class ExchangeSequence {
 public:
  static constexpr int kMost = 64;  // twice the bits of a rank, and folding in and out

  void add(const Exchange& exchange);

  // Takes the group's scratch and begins. REQUIRES: the last run is finished. The group does nothing else until this
  // is.
  void start(Group& group, ReduceOp op);
  // Goes on as far as it can without waiting. True when finished.
  bool advance();
  void finish();  // waits; also without start()
  void clear();   // for the next plan

  void run(Group& group, ReduceOp op) {
    start(group, op);
    finish();
  }

 private:
  using Works = std::array<Work, kMostPieces>;
  TensorView room(int index) const;
  void post_receive(int index);
  void post_send();
  bool may_post_next() const;
  void begin_current();
  void complete_current();

  std::array<Exchange, kMost> exchanges_;
  int count_ = 0;
  int current_ = 0;
  bool next_posted_ = false;
  Group* group_ = nullptr;
  ReduceOp op_ = ReduceOp::sum;
  std::array<TensorView, 2> rooms_;  // for what is added: one for the exchange under way, one for the next
  std::array<Works, 2> received_;
  Works sent_;
};

}  // namespace paceline
