// SharedBlock: the memory that the ranks of a group on one host meet in. Zero bytes are a valid, empty one.
//
//   header | a slot per rank | a channel per ordered pair of ranks
//
// Every word has one writer. What is more than one word is published by a counter that is stored after it.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "paceline/comm/arena.h"
#include "paceline/comm/patience.h"
#include "paceline/comm/status_cell.h"

namespace paceline {

// Words of different writers lie this far apart: processors fetch cache lines in pairs.
inline constexpr size_t kApart = 128;

// A rank has reached a phase, and shows a buffer there.
struct alignas(kApart) Arrival {
  std::atomic<uint64_t> phase{0};  // counts the meetings of the group, from 1
  uint64_t code = 0;               // of the operation that it is in
  Address data;
};

struct RankSlot {
  // Phases take turns: a rank may be one phase ahead of another that still reads, never two.
  Arrival arrivals[2];
  alignas(kApart) Bed bed;
  alignas(kApart) StatusCell status;
  alignas(kApart) std::atomic<uint32_t> left{0};  // done with the group: it will not come to another meeting
  std::atomic<uint32_t> gone{0};                  // and will not touch this memory again
};

// Something that one rank has for another. Large buffers that both see are shown where they lie; all else is copied
// into room that the sender owns, in pieces.
struct alignas(kApart) Letter {
  std::atomic<uint64_t> number{0};  // counts the letters of its channel, from 1
  uint64_t code = 0;                // of the operation that the sender is in
  uint64_t message_bytes = 0;       // of the whole message
  uint64_t bytes = 0;               // of this piece
  Address data;
};

struct Channel {
  static constexpr uint64_t kLetters = 8;
  Letter letters[kLetters];
  alignas(kApart) std::atomic<uint64_t> taken{0};  // written by the receiver
};

struct alignas(kApart) SharedBlock {
  std::atomic<uint32_t> released{0};  // ranks that know that all are gone

  static size_t bytes_for(int ranks) {
    return sizeof(SharedBlock) + static_cast<size_t>(ranks) * (sizeof(RankSlot) + ranks * sizeof(Channel));
  }
  RankSlot& slot(int rank) { return reinterpret_cast<RankSlot*>(this + 1)[rank]; }
  Channel& channel(int from, int to, int ranks) {
    return reinterpret_cast<Channel*>(&slot(ranks))[static_cast<size_t>(from) * ranks + to];
  }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "they lie between processes");

}  // namespace paceline
