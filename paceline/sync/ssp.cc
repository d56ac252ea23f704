#include "paceline/sync/ssp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace paceline {

double penalised_rate(double rate, uint64_t staleness, const SyncSettings& settings) {
  const double s = static_cast<double>(staleness);
  if (settings.penalty == "linear") return rate / (1 + s);
  if (settings.penalty == "exponential") return rate * std::exp(-settings.penalty_decay * s);
  return rate;
}

SspPolicy::SspPolicy(const SyncSettings& settings)
    : SspPolicy("ssp", settings, static_cast<uint64_t>(settings.staleness)) {}

SspPolicy::SspPolicy(std::string name, const SyncSettings& settings, std::optional<uint64_t> bound)
    : TrackedPolicy(std::move(name), settings), bound_(bound) {}

void SspPolicy::joined(const SyncEvent& join, Answer& answer) {
  uint64_t slowest = std::numeric_limits<uint64_t>::max();
  for (const auto& [id, other] : workers())
    if (id != join.worker) slowest = std::min(slowest, other.finished);
  if (live() > 1) worker(join.worker).finished = slowest;
  release(join.worker, join.time_ns, answer);
}

void SspPolicy::left(const SyncEvent& leave, Answer& answer) { release_all_that_may(leave.time_ns, answer); }

void SspPolicy::pushed(const SyncEvent& push, Answer& answer) {
  const uint64_t staleness = version() - push.version;
  answer.push_back({.kind = Decision::Kind::apply,
                    .worker = push.worker,
                    .version = next_version(),
                    .samples = push.samples,
                    .rate = penalised_rate(push.rate, staleness, settings())});
  release_all_that_may(push.time_ns, answer);
}

void SspPolicy::release_all_that_may(int64_t time_ns, Answer& answer) {
  uint64_t slowest = std::numeric_limits<uint64_t>::max();
  for (const auto& [id, worker] : workers()) slowest = std::min(slowest, worker.finished);
  for (const int id : waiting())
    if (!bound_ || worker(id).finished - slowest <= *bound_) release(id, time_ns, answer);
}

}  // namespace paceline
