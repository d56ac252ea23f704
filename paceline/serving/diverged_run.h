// DivergedRun: what becomes of the newest checkpoint of a run on a parameter server that diverges. One that this run
// has written may hold weights that are finite and lead nowhere: it is set aside, so that the run can go on from the
// one before.
#pragma once

#include <exception>
#include <string>

#include "paceline/train/checkpoint.h"
#include "paceline/train/divergence.h"

namespace paceline {

class DivergedRun {
 public:
  // Made when the run begins.
  explicit DivergedRun(CheckpointStore store) : store_(std::move(store)), before_(newest()) {}

  // Sets the newest checkpoint aside where this run has written it, and says in words from which one to go on.
  std::string advice() { return store_.advice_after_divergence(newest() > before_); }

  [[noreturn]] void rethrow_with_advice(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const DivergenceError& error) {
      throw TrainingError(error.what() + advice());
    }
  }

 private:
  int64_t newest() const { return store_.all().empty() ? -1 : store_.all().back().step; }

  CheckpointStore store_;
  int64_t before_;  // the step of the newest one; -1: there was none
};

}  // namespace paceline
