// The mpi engine: ranks talk through MPI. No threads and no globals here, so that SimGrid's smpicxx compiles the same
// file and thousands of ranks run in one process.
#pragma once

#include <memory>
#include <string>

#include "paceline/comm/group.h"

namespace paceline {

// MPI itself: initialised when this is made (unless the program has), finalised when it goes (if we initialised it).
class MpiLibrary {
 public:
  MpiLibrary();
  ~MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;

  int rank() const;
  int size() const;
  // Every rank gets the text of rank 0.
  std::string broadcast_text(const std::string& text) const;
  [[noreturn]] void abort(int exit_code) const;  // ends all ranks

 private:
  bool initialised_here_;
};

struct MpiOptions {
  // Wait inside MPI instead of looking again and again. For the simulator, where looking costs simulated time; such a
  // wait cannot be ended by the alarm.
  bool blocking_waits = false;
};

// A group of all of MPI's ranks.
std::unique_ptr<Group> make_mpi_group(GroupIdentity identity, std::shared_ptr<Monitor> monitor,
                                      MpiOptions options = {});

}  // namespace paceline
