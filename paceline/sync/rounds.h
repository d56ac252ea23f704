// RoundsPolicy: the frame of all models whose steps are made of several gradients.
//
// Gradients of the newest version are fresh: they accumulate, and their workers wait. Late ones are merged or dropped,
// and their workers released at once. The step comes when the round is complete, which each model says for itself, or
// when all live workers wait; then the waiting ones are released, ascending.
//
// The first step is for all workers that are expected: it needs as many as are live or still to come. A worker that
// leaves meanwhile is expected no more.
#pragma once

#include <map>
#include <set>
#include <string>

#include "paceline/sync/tracked_policy.h"

namespace paceline {

// The newest version's gradients so far.
struct RoundSoFar {
  uint64_t version = 0;
  int gradients = 0;  // also of workers that have left since
  int party = 0;      // workers that are live or, before the first step, still to come
};

class RoundsPolicy : public TrackedPolicy {
 public:
  int to_come() const final;

 protected:
  RoundsPolicy(std::string name, const SyncSettings& settings, std::string merge);

  // Whether these gradients are enough for a step, though others are still computing.
  virtual bool complete(const RoundSoFar& round) const = 0;

  // For models that learn from what they see. `released_ns`: when the pusher was given its parameters.
  virtual void watch_push(const SyncEvent& /*push*/, int64_t /*released_ns*/) {}
  virtual void watch_leave(const SyncEvent& /*leave*/) {}
  virtual void watch_version(int64_t /*time_ns*/) {}  // version() has begun; version 0 with the first join
  virtual bool watch_noise(const SyncEvent& /*noise*/) { return false; }  // whether it is time for a step

  RoundSoFar round() const { return {.version = version(), .gradients = gradients_, .party = live() + to_come()}; }

  void joined(const SyncEvent& join, Answer& answer) final;
  void left(const SyncEvent& leave, Answer& answer) final;
  void pushed(const SyncEvent& push, Answer& answer) final;
  void noted(const SyncEvent& noise, Answer& answer) final;
  void save_more(nlohmann::json& state) const override;
  void load_more(const nlohmann::json& state) override;

 private:
  double samples_of_all() const;
  void step_if_complete(int64_t time_ns, Answer& answer);
  void step(int64_t time_ns, Answer& answer);
  void forget_unused_versions();

  std::string merge_;   // late_gradients.h
  std::set<int> came_;  // who has ever joined; of interest before the first step only
  int gradients_ = 0;
  uint64_t samples_ = 0;
  double rate_ = 0;                         // sample-weighted mean of the gradients' rates
  std::map<uint64_t, int> step_gradients_;  // of each version that somebody still computes with
};

}  // namespace paceline
