// Journal: what happened to a coordinator, in files, so that the next process can go on from it.
//
// A snapshot and the events after it. An event is there once append() has returned, also when the process is killed in
// the next moment: the system has it. (A machine that dies loses both; checkpoints are for that. The folder belongs on
// /dev/shm, as that of the shards.) Snapshot n is in coordinator.n.state, what came after it in coordinator.n.journal;
// n is 0 and without a state before the first one. Whole snapshots appear by rename, so at any moment the newest one
// with its journal, if there is one already, is all that happened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "paceline/ps/coordinator.h"

namespace paceline {

struct JournalContents {
  std::optional<std::string> state;  // nothing: there was no snapshot
  std::vector<CoordinatorEvent> events;
};

class Journal {
 public:
  // Makes the folder where there is none. An event that was being written when the process was killed is dropped: what
  // follows from it was never sent. Throws FileError where the files are damaged otherwise, or another process has
  // them.
  explicit Journal(std::filesystem::path folder);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  JournalContents recover() const;
  void append(const CoordinatorEvent& event);  // throws FileError: then it is not there
  // Instead of all that was there before. Throws FileError: then that is still there, and appending goes on.
  void snapshot(const std::string& state);
  uint64_t appended() const { return records_; }  // events since the snapshot

 private:
  std::filesystem::path state_path(uint64_t number) const;
  std::filesystem::path journal_path(uint64_t number) const;
  void open_journal();
  void remove_older() const;

  std::filesystem::path folder_;
  int lock_ = -1;
  int descriptor_ = -1;
  uint64_t number_ = 0;   // of the snapshot
  uint64_t records_ = 0;  // in its journal
};

}  // namespace paceline
