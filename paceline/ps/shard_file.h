// ShardFile: where everything lies that a shard keeps, and the marks that make it survive a kill at any moment.
//
// Numbers that change with every command are there twice: those of the last finished command, and those that will
// hold when the one under way is done. One word says which are which and whether a command is under way; storing it
// begins a command, storing it again commits. In between the arrays change chunk by chunk: a chunk is copied to an
// undo slot, the slot is marked, the chunk is changed and signed with the command's serial number, the mark is
// cleared. A process that is killed leaves its stores in their order (they are in the page cache), so it is enough
// that the compiler keeps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "paceline/ps/command.h"
#include "paceline/ps/mapped_file.h"
#include "paceline/ps/server_update.h"
#include "paceline/ps/shard_map.h"

namespace paceline {

// Elements that are undone together. So small that a chunk of every array and its copy fit into the first cache: 512
// reach nine tenths of what the memory can do, 4096 half of it.
inline constexpr uint64_t kChunk = 512;
static_assert(ShardMap::kBlock % kChunk == 0);
inline constexpr int kMostUpdateThreads = 16;  // each has an undo slot
inline constexpr int kMostChanged = 3;         // arrays that a command changes

struct ShardNumbers {
  std::array<std::byte, kCommandBytes> command;  // the last one, or the one under way; zero: none yet
  uint64_t serial;                               // of what was done to this file: never goes back
  uint64_t executed, version;
  uint64_t steps;                   // of the optimizer
  double rate;                      // of its last step
  double samples, samples_squared;  // W and W2 of the round
  double mean_norm2, spread;        // what the command has to report
  int64_t place;                    // where its gradient is staged; -1: it has none
  uint64_t mean;                    // which of the means is the round's; the others are those of earlier versions
  struct Mean {
    uint64_t version;
    double samples;  // 0: nothing is there
  } means[kMostHistory + 1];
};

struct ChunkMark {
  std::atomic<uint64_t> serial;  // of the last command that changed the chunk
  double mean_norm2, spread;     // its part of the round's noise
};

struct StagingMark {
  std::atomic<int64_t> worker;  // -1: free
  std::atomic<uint64_t> sequence, complete, finished;
  std::atomic<uint64_t> reserved;  // the memory is there
};

struct UndoSlot {
  std::atomic<uint64_t> chunk;  // whose copy this is, plus 1; 0: none
  uint64_t serial;
  double mean_norm2, spread;
  float values[kMostChanged][kChunk];
};

class ShardFile {
 public:
  ShardFile(const std::filesystem::path& path, const ShardMap& map, int shard, const ServerUpdate& update,
            std::span<const float> initial);

  uint64_t count() const { return count_; }
  uint64_t chunks() const { return (count_ + kChunk - 1) / kChunk; }

  const ShardNumbers& now() const;     // after the last finished command
  ShardNumbers& next() const;          // after the one under way; free to be written to where none is
  std::span<float> rates_now() const;  // LARS: of each tensor, in the last step
  std::span<float> rates_next() const;
  bool under_way() const;
  void begin();
  void commit();

  float* weights() const { return array(0); }
  float* state(int index) const { return array(1 + index); }
  float* mean(uint64_t index) const { return array(1 + states_ + index); }
  float* staged(int place) const { return array(1 + states_ + means_ + static_cast<uint64_t>(place)); }
  std::span<StagingMark> places() const;
  void reserve_place(int place);  // throws FileError when there is no room
  std::span<ChunkMark> marks() const;
  UndoSlot& undo(int thread) const;

  // Around the change of a chunk of `changed` arrays.
  void keep(int thread, uint64_t chunk, std::span<float* const> changed) const;
  void sign(int thread, uint64_t chunk, uint64_t serial) const;
  void undo_unfinished(std::span<float* const> changed) const;  // after a restart

 private:
  float* array(uint64_t index) const;
  template <class Type>
  Type* at(uint64_t offset_bytes) const {
    return reinterpret_cast<Type*>(memory_ + offset_bytes);
  }
  void lay_out();
  void create(const std::string& identity, std::span<const float> initial) const;
  void verify(const std::string& identity) const;

  uint64_t count_;
  uint64_t states_, means_, places_, tensors_;
  uint64_t places_at_ = 0, rates_at_ = 0, marks_at_ = 0, undo_at_ = 0, arrays_at_ = 0;  // bytes from the beginning
  uint64_t array_bytes_ = 0, reserved_bytes_ = 0, bytes_ = 0;
  std::byte* memory_ = nullptr;
  std::unique_ptr<MappedFile> file_;
};

}  // namespace paceline
