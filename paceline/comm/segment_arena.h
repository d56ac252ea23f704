// SegmentArena: memory that processes of one host share: files in /dev/shm, mapped where they are needed.
//
// A run's files are "NAME.control" and "NAME.RANK.NUMBER" with NAME = "paceline-JOB-RANDOM": containers that share
// /dev/shm may have the same job names and process numbers. Every rank holds a lock on the first file; the last one to
// release it removes all of them. After a crash nobody holds it: the next run sees that and removes them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/comm/arena.h"

namespace paceline {

class SegmentArena : public Arena {
 public:
  // Rank 0 of `ranks` on this host makes the control file with `control_bytes` in it, zeroed; the other ranks open it
  // by its name.
  static std::shared_ptr<SegmentArena> create(const std::string& job, int ranks, size_t control_bytes);
  static std::shared_ptr<SegmentArena> open(const std::string& name, int rank, int ranks);
  ~SegmentArena() override;

  const std::string& name() const { return name_; }
  void* control() const { return control_; }

  // Zeroed. Throws FileError when there is no room. Given back memory is used again, so that addresses stay good.
  Memory allocate(size_t bytes) override;
  std::optional<Address> address_of(const void* data, size_t bytes) override;
  void* resolve(Address address) override;

 private:
  static constexpr size_t kMostSegments = 4096;  // of one rank
  struct Segment {
    std::byte* begin;
    size_t bytes;
  };
  using Mapped = std::unique_ptr<std::atomic<std::byte*>[]>;  // another rank's segments, by number

  SegmentArena(std::string name, int rank, int ranks, int control_descriptor);
  uint32_t make_segment(size_t bytes);
  std::byte* map_segment_of(uint32_t owner, uint32_t number);

  const std::string name_;
  const uint32_t rank_;
  const uint32_t ranks_;
  const int control_descriptor_;  // holds the lock
  size_t control_bytes_ = 0;
  void* control_ = nullptr;

  std::unique_ptr<Segment[]> own_;  // the first `own_count_` are there for good
  std::atomic<uint32_t> own_count_{0};

  std::mutex mutex_;
  std::multimap<size_t, uint32_t> unused_;                           // own segments that were given back, by size
  std::vector<Segment> foreign_;                                     // to unmap at the end
  std::unique_ptr<std::atomic<std::atomic<std::byte*>*>[]> mapped_;  // per owner
  std::vector<Mapped> mapped_tables_;
};

// Removes the files of runs of which no process is left; returns how many there were.
int remove_stale_segments();

}  // namespace paceline
