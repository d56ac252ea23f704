// For tests: all that has happened to a policy, and questions that are answered by reading it from the beginning. Slow
// and plain: what policies keep in their state is compared with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "paceline/sync/policy.h"

namespace paceline {

struct SyncRecord {
  SyncEvent event;
  std::vector<Decision> decisions;
};

inline constexpr int kMostTestWorkers = 6;

class SyncHistory {
 public:
  std::vector<SyncRecord> records;

  const SyncEvent& event() const { return records.back().event; }
  void answer(const Decision& decision) { records.back().decisions.push_back(decision); }

  uint64_t version() const {
    uint64_t steps = 0;
    for (const SyncRecord& record : records)
      for (const Decision& decision : record.decisions)
        if (decision.kind == Decision::Kind::step || decision.kind == Decision::Kind::apply) ++steps;
    return steps;
  }

  bool is_live(int worker) const {
    bool live = false;
    for (const SyncRecord& record : records) {
      if (record.event.worker != worker) continue;
      if (record.event.kind == SyncEvent::Kind::join) live = true;
      if (record.event.kind == SyncEvent::Kind::leave) live = false;
    }
    return live;
  }

  std::vector<int> live() const {
    std::vector<int> ids;
    for (int id = 0; id < kMostTestWorkers; ++id)
      if (is_live(id)) ids.push_back(id);
    return ids;
  }

  // Live workers that were not released since they joined or pushed.
  std::vector<int> waiting() const {
    std::vector<int> ids;
    for (const int id : live()) {
      bool waits = false;
      for (const SyncRecord& record : records) {
        const bool its = record.event.worker == id;
        if (its && (record.event.kind == SyncEvent::Kind::join || record.event.kind == SyncEvent::Kind::push))
          waits = true;
        for (const Decision& decision : record.decisions)
          if (decision.kind == Decision::Kind::release && decision.worker == id) waits = false;
      }
      if (waits) ids.push_back(id);
    }
    return ids;
  }

  // Workers that are expected and have never been seen, while there was no step.
  int to_come(int expected) const {
    if (version() > 0) return 0;
    std::set<int> seen;
    for (const SyncRecord& record : records)
      if (record.event.kind == SyncEvent::Kind::join) seen.insert(record.event.worker);
    return std::max(0, expected - static_cast<int>(seen.size()));
  }

  // Of the latest push since the worker is there; 0: none.
  uint64_t latest_samples(int worker) const {
    uint64_t samples = 0;
    for (const SyncRecord& record : records) {
      if (record.event.worker != worker) continue;
      if (record.event.kind == SyncEvent::Kind::push) samples = record.event.samples;
      if (record.event.kind == SyncEvent::Kind::leave) samples = 0;
    }
    return samples;
  }

  // The pushes that were accumulated for a version.
  std::vector<SyncEvent> accumulated(uint64_t version) const {
    std::vector<SyncEvent> pushes;
    for (const SyncRecord& record : records)
      for (const Decision& decision : record.decisions)
        if (decision.kind == Decision::Kind::accumulate && decision.version == version) pushes.push_back(record.event);
    return pushes;
  }
};

inline Decision release_of(int worker, uint64_t version) {
  return {.kind = Decision::Kind::release, .worker = worker, .version = version};
}
inline Decision step_to(uint64_t version, uint64_t samples, double rate) {
  return {.kind = Decision::Kind::step, .version = version, .samples = samples, .rate = rate};
}
// accumulate, merge, merge_mean, drop, exchange
inline Decision gradient(Decision::Kind kind, int worker, uint64_t version, uint64_t samples, double factor = 0) {
  return {.kind = kind, .worker = worker, .version = version, .samples = samples, .factor = factor};
}
inline Decision apply_of(int worker, uint64_t new_version, uint64_t samples, double rate) {
  return {.kind = Decision::Kind::apply, .worker = worker, .version = new_version, .samples = samples, .rate = rate};
}

inline SyncEvent join(int worker, int64_t time_ns = 0) {
  return {.kind = SyncEvent::Kind::join, .time_ns = time_ns, .worker = worker};
}
inline SyncEvent leave(int worker, int64_t time_ns = 0) {
  return {.kind = SyncEvent::Kind::leave, .time_ns = time_ns, .worker = worker};
}
inline SyncEvent push(int worker, uint64_t version, uint64_t samples = 8, double rate = 0.5, int64_t time_ns = 0) {
  return {.kind = SyncEvent::Kind::push,
          .time_ns = time_ns,
          .worker = worker,
          .version = version,
          .samples = samples,
          .rate = rate};
}
inline SyncEvent noise(uint64_t version, const GradientNoise& noise, int64_t time_ns = 0) {
  return {.kind = SyncEvent::Kind::noise, .time_ns = time_ns, .version = version, .noise = noise};
}

inline void PrintTo(const Decision& decision, std::ostream* out) { *out << to_text(decision); }  // for gtest
inline std::string to_text(const std::vector<Decision>& decisions) {
  std::string text;
  for (const Decision& decision : decisions) text += "  " + to_text(decision) + "\n";
  return text.empty() ? "  nothing\n" : text;
}

}  // namespace paceline
