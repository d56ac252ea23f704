// RingPass: messages that travel around a ring, in order, several under way at once. What the ring's reduce-scatter and
// all-gather have in common.
#pragma once

#include <array>

#include "paceline/collectives/pieces.h"
#include "paceline/comm/group.h"

namespace paceline {

// Sends out(i) to the next rank and receives in(i) from the previous one, i = 0 ... items-1. arrived(i) is called when
// in(i) is there; only then is out(i + pieces) sent, which may depend on it. One receive more than there are sends is
// posted, so that a message never finds the door shut: in(i) and in(i + pieces + 1) may share their room.
template <class Out, class In, class Arrived>
void pass_around_ring(Group& group, int items, int pieces, const Out& out, const In& in, const Arrived& arrived) {
  const int next = (group.rank() + 1) % group.size();
  const int prev = (group.rank() + group.size() - 1) % group.size();
  std::array<Work, kMostPieces + 1> received;
  std::array<Work, kMostPieces> sent;
  const auto receive = [&](int item) {
    if (item < items) received[item % (pieces + 1)] = group.receive(in(item), prev);
  };
  const auto send = [&](int item) {
    if (item >= items) return;
    sent[item % pieces].wait();
    sent[item % pieces] = group.send(out(item), next);
  };

  for (int item = 0; item <= pieces; ++item) receive(item);
  for (int item = 0; item < pieces; ++item) send(item);
  for (int item = 0; item < items; ++item) {
    received[item % (pieces + 1)].wait();
    arrived(item);
    receive(item + pieces + 1);
    send(item + pieces);
  }
  for (Work& work : sent) work.wait();
}

}  // namespace paceline
