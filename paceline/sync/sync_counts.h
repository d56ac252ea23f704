// SyncCounts: what became of the gradients of a run, how old they were, how far its workers were apart. It looks on as
// a policy answers, and is as pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/sync/policy.h"

namespace paceline {

class SyncCounts {
 public:
  struct OfWorker {
    uint64_t accumulated = 0, applied = 0, merged = 0, dropped = 0, exchanged = 0;  // sum: pushes

    bool operator==(const OfWorker&) const = default;
  };

  // REQUIRES: `decisions` are a policy's answer to the event, and all events come here in their order
  void observe(const SyncEvent& event, const std::vector<Decision>& decisions);

  const std::map<int, OfWorker>& workers() const { return workers_; }  // all that ever pushed
  OfWorker total() const;
  // How many gradients were so stale. Beyond 255 steps the classes are an eighth of a power of two wide, and named by
  // their middle: a long run has some hundred of them, not as many as its slowest worker was ever late.
  const std::map<uint64_t, uint64_t>& staleness() const { return staleness_; }
  uint64_t steps() const { return version_; }
  int round_gradients() const { return round_gradients_; }          // that wait for their step
  int last_step_gradients() const { return last_step_gradients_; }  // that were in time for it: adaptive k's k

  // Steps that the fastest live worker has finished more than the slowest. Who joins begins at the slowest one's count.
  uint64_t gap() const;
  uint64_t largest_gap() const { return largest_gap_; }

  std::string save() const;              // JSON
  void load(const std::string& counts);  // throws DataError for what save() did not write

 private:
  uint64_t slowest() const;

  std::map<int, OfWorker> workers_;
  std::map<uint64_t, uint64_t> staleness_;
  std::map<int, uint64_t> finished_;  // by the live ones
  uint64_t version_ = 0;
  uint64_t largest_gap_ = 0;
  int round_gradients_ = 0;
  int last_step_gradients_ = 0;
};

}  // namespace paceline
