// RunLock: one process at a time trains in a run folder. Released when the process ends, however it ends.
#pragma once

#include "paceline/train/run_folder.h"

namespace paceline {

class RunLock {
 public:
  explicit RunLock(const RunFolder& folder);  // throws FileError when another process has it
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace paceline
