#include "paceline/sync/rounds.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "paceline/sync/late_gradients.h"

namespace paceline {

RoundsPolicy::RoundsPolicy(std::string name, const SyncSettings& settings, std::string merge)
    : TrackedPolicy(std::move(name), settings), merge_(std::move(merge)) {}

int RoundsPolicy::to_come() const {
  return version() > 0 ? 0 : std::max(0, settings().workers - static_cast<int>(came_.size()));
}

void RoundsPolicy::joined(const SyncEvent& join, Answer& answer) {
  if (version() == 0) {
    if (came_.empty()) watch_version(join.time_ns);
    came_.insert(join.worker);
  }
  release(join.worker, join.time_ns, answer);
}

void RoundsPolicy::left(const SyncEvent& leave, Answer& answer) {
  watch_leave(leave);
  step_if_complete(leave.time_ns, answer);
}

void RoundsPolicy::pushed(const SyncEvent& push, Answer& answer) {
  watch_push(push, worker(push.worker).released_ns);
  if (push.version == version()) {
    ++gradients_;
    samples_ += push.samples;
    // A running mean: of equal rates it is that rate, to the bit.
    rate_ += static_cast<double>(push.samples) / static_cast<double>(samples_) * (push.rate - rate_);
    answer.push_back(
        {.kind = Decision::Kind::accumulate, .worker = push.worker, .version = push.version, .samples = push.samples});
  } else {
    const LateGradient late = {.worker = push.worker,
                               .version = push.version,
                               .samples = push.samples,
                               .staleness = version() - push.version,
                               .all_samples = samples_of_all(),
                               .gradients_of_step = step_gradients_.at(push.version)};
    answer.push_back(decide_late(late, merge_, settings().momentum, settings().history));
    release(push.worker, push.time_ns, answer);
  }
  step_if_complete(push.time_ns, answer);
}

void RoundsPolicy::noted(const SyncEvent& noise, Answer& answer) {
  if (watch_noise(noise) && gradients_ > 0) step(noise.time_ns, answer);
}

// Of one gradient from every live worker: its latest push, or the mean of the others' where it has not pushed yet.
double RoundsPolicy::samples_of_all() const {
  double known_samples = 0;
  int known = 0;
  for (const auto& [id, worker] : workers()) {
    known_samples += static_cast<double>(worker.samples);
    if (worker.samples > 0) ++known;
  }
  return known_samples / known * live();
}

void RoundsPolicy::step_if_complete(int64_t time_ns, Answer& answer) {
  if (gradients_ == 0) return;
  if ((to_come() == 0 && all_wait()) || complete(round())) step(time_ns, answer);
}

void RoundsPolicy::step(int64_t time_ns, Answer& answer) {
  step_gradients_[version()] = gradients_;
  const uint64_t begun = next_version();
  answer.push_back({.kind = Decision::Kind::step, .version = begun, .samples = samples_, .rate = rate_});
  gradients_ = 0;
  samples_ = 0;
  rate_ = 0;
  came_.clear();
  for (const int id : waiting()) release(id, time_ns, answer);
  forget_unused_versions();
  watch_version(time_ns);
}

void RoundsPolicy::forget_unused_versions() {
  uint64_t oldest = version();
  for (const auto& [id, worker] : workers()) oldest = std::min(oldest, worker.version);
  step_gradients_.erase(step_gradients_.begin(), step_gradients_.lower_bound(oldest));
}

void RoundsPolicy::save_more(nlohmann::json& state) const {
  state["round"] = {{"came", came_},
                    {"gradients", gradients_},
                    {"samples", samples_},
                    {"rate", rate_},
                    {"step_gradients", step_gradients_}};
}

void RoundsPolicy::load_more(const nlohmann::json& state) {
  const nlohmann::json& round = state.at("round");
  came_ = round.at("came").get<std::set<int>>();
  gradients_ = round.at("gradients").get<int>();
  samples_ = round.at("samples").get<uint64_t>();
  rate_ = round.at("rate").get<double>();
  step_gradients_ = round.at("step_gradients").get<std::map<uint64_t, int>>();
}

}  // namespace paceline
