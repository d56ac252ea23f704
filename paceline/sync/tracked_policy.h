// TrackedPolicy: what all policies share. Who is there, who computes with which version, who waits; and which events
// cannot be. What becomes of a gradient is for the classes below it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>
#include <vector>

#include "paceline/sync/policy.h"

namespace paceline {

class TrackedPolicy : public Policy {
 public:
  std::string name() const final { return name_; }
  std::vector<Decision> on(const SyncEvent& event) final;
  uint64_t version() const final { return version_; }
  int live() const final { return static_cast<int>(workers_.size()); }
  std::vector<int> waiting() const final;

  // JSON. Times in it are of the clock of the events: whoever starts again lets that clock go on.
  std::string save() const final;
  // Throws DataError for what is no state of this policy, which is of no more use then.
  void load(const std::string& state) final;

 protected:
  using Answer = std::vector<Decision>;

  struct Worker {
    bool waiting = false;     // has pushed and was not released
    uint64_t version = 0;     // that it was given last
    int64_t released_ns = 0;  // when
    uint64_t samples = 0;     // of its latest push; 0: none yet
    uint64_t finished = 0;    // pushes; a joiner may begin with more
  };

  TrackedPolicy(std::string name, const SyncSettings& settings);

  // The event has been checked and the worker's entry brought up to date: it is there but not yet released, gone, or
  // waiting. None of these may throw.
  virtual void joined(const SyncEvent& join, Answer& answer) = 0;
  virtual void left(const SyncEvent& leave, Answer& answer) = 0;
  virtual void pushed(const SyncEvent& push, Answer& answer) = 0;
  virtual void noted(const SyncEvent& /*noise*/, Answer& /*answer*/) {}

  virtual void save_more(nlohmann::json& /*state*/) const {}
  virtual void load_more(const nlohmann::json& /*state*/) {}

  void release(int worker, int64_t time_ns, Answer& answer);
  uint64_t next_version() { return ++version_; }

  const SyncSettings& settings() const { return settings_; }
  const std::map<int, Worker>& workers() const { return workers_; }
  Worker& worker(int id) { return workers_.at(id); }
  bool all_wait() const;  // also when nobody is there

 private:
  void check(const SyncEvent& event) const;
  void check_push(const SyncEvent& push) const;

  std::string name_;
  SyncSettings settings_;
  uint64_t version_ = 0;
  std::map<int, Worker> workers_;  // the live ones, ascending
};

}  // namespace paceline
