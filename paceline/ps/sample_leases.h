// SampleLeases: which samples a worker computes with next, so that every sample of every epoch is used once, whoever
// comes and goes.
//
// The samples of a run are cut into global batches (data/sampler.h) and these into shares, one for each expected
// worker, in one fixed order. A lease is a share that a worker has and has not given back; a share is used when its
// gradient has been pushed. What a worker had that left is leased again, first; of what nobody had, worker k gets share
// k of the batch, where that is left: so whoever comes first, the same workers see the same samples. Pure: no clock, no
// chance.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "paceline/data/sampler.h"

namespace paceline {

// What a run reads: all of it follows from the recipe.
struct LeasePlan {
  uint64_t data_size = 0;
  uint64_t total_samples = 0;  // where the run ends: no batch begins there or later
  BatchSchedule global_batch = 1;
  int workers = 1;             // shares of a global batch; empty ones are left out
  uint64_t begin_samples = 0;  // of a run that goes on: the first global batch begins here, as step begin_step
  uint64_t begin_step = 0;
};

struct SampleLease {
  uint64_t number = 0;          // of the share, from 0, in the plan's order
  uint64_t step = 0;            // of its global batch: what schedules and seeds count
  uint64_t cursor_samples = 0;  // where that batch begins
  uint64_t global_count = 0;    // samples in it
  int share = 0;                // which share of it
  BatchRange range;             // the samples

  bool operator==(const SampleLease&) const = default;
};

class SampleLeases {
 public:
  explicit SampleLeases(LeasePlan plan);

  // The worker's next share; nothing when all are leased or used. REQUIRES: the worker has none.
  std::optional<SampleLease> lease(int worker);
  std::optional<SampleLease> held(int worker) const;
  std::optional<int> earliest() const;  // who has the share of the lowest number
  void use(int worker);                 // its gradient has been pushed. REQUIRES: it has one
  void give_back_all();                 // of a run that goes on from a checkpoint: nobody has any
  void give_back(int worker);           // it is gone; nothing happens where it has none

  bool available() const;  // whether lease() would give one
  bool all_used() const;
  uint64_t used_samples() const;
  uint64_t used_shares() const;

  std::string save() const;             // JSON
  void load(const std::string& state);  // throws DataError for what save() did not write. REQUIRES: the same plan, but
                                        // for its end, which may be later

 private:
  // The share of that number, looked for from this place in the plan on; nothing beyond the end of the run.
  std::optional<SampleLease> share_at(uint64_t number, uint64_t step, uint64_t cursor_samples, int share) const;
  std::optional<SampleLease> share_numbered(uint64_t number) const;
  std::optional<SampleLease> after(const SampleLease& lease) const;

  LeasePlan plan_;
  SampleLease take_new(int worker);

  std::map<uint64_t, SampleLease> begun_;  // of the newest batch of which one was leased: those that never were
  std::optional<SampleLease> next_;        // the first of the batch after it; nothing: there is none
  std::map<uint64_t, SampleLease> returned_;
  std::map<int, SampleLease> held_;
  std::map<uint64_t, int> holders_;  // of the numbers
  uint64_t used_samples_ = 0;
  uint64_t used_shares_ = 0;
};

}  // namespace paceline
