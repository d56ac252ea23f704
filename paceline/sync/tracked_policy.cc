#include "paceline/sync/tracked_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr uint64_t kMostSamples = uint64_t{1} << 40;  // of one gradient: sums of many stay exact in doubles

}  // namespace

TrackedPolicy::TrackedPolicy(std::string name, const SyncSettings& settings)
    : name_(std::move(name)), settings_(settings) {
  check_settings(settings);
}

std::vector<Decision> TrackedPolicy::on(const SyncEvent& event) {
  check(event);
  Answer answer;
  switch (event.kind) {
    case SyncEvent::Kind::join:
      workers_[event.worker] = {.waiting = true};
      joined(event, answer);
      break;
    case SyncEvent::Kind::leave:
      workers_.erase(event.worker);
      left(event, answer);
      break;
    case SyncEvent::Kind::push: {
      Worker& pusher = worker(event.worker);
      pusher.waiting = true;
      pusher.samples = event.samples;
      ++pusher.finished;
      pushed(event, answer);
      break;
    }
    case SyncEvent::Kind::noise:
      noted(event, answer);
      break;
    case SyncEvent::Kind::tick:
      break;
  }
  return answer;
}

void TrackedPolicy::check(const SyncEvent& event) const {
  const bool there = workers_.contains(event.worker);
  switch (event.kind) {
    case SyncEvent::Kind::join:
      if (event.worker < 0)
        throw PeerError(fmt::format("worker {} wants to join: workers are numbered from 0", event.worker));
      if (there)
        throw PeerError(fmt::format(
            "worker {} joins, but a worker of that number is there already: give each worker its own", event.worker));
      break;
    case SyncEvent::Kind::leave:
      if (!there)
        throw PeerError(fmt::format("worker {} leaves, but is not there: it has to join first", event.worker));
      break;
    case SyncEvent::Kind::push:
      check_push(event);
      break;
    case SyncEvent::Kind::noise:
      if (event.version > version_)
        throw PeerError(fmt::format("the noise of version {}'s gradients is reported, but the newest version is {}",
                                    event.version, version_));
      if (!(event.noise.samples > 0))
        throw PeerError(fmt::format("the noise of version {}'s gradients is reported of no samples", event.version));
      break;
    case SyncEvent::Kind::tick:
      break;
  }
}

void TrackedPolicy::check_push(const SyncEvent& push) const {
  const auto found = workers_.find(push.worker);
  if (found == workers_.end())
    throw PeerError(fmt::format("worker {} pushed a gradient, but is not there: it has to join first", push.worker));
  const Worker& pusher = found->second;
  if (pusher.waiting)
    throw PeerError(
        fmt::format("worker {} pushed a gradient of version {}, but its last push has not been answered: "
                    "it has to wait until it is released",
                    push.worker, push.version));
  if (push.version != pusher.version)
    throw PeerError(
        fmt::format("worker {} pushed a gradient of version {}, but was given version {}: it has to "
                    "compute with the parameters that it was released with",
                    push.worker, push.version, pusher.version));
  if (push.samples == 0)
    throw PeerError(
        fmt::format("worker {} pushed a gradient of no samples: it has to be the mean of at least one", push.worker));
  if (push.samples > kMostSamples)
    throw PeerError(fmt::format("worker {} pushed a gradient of {} samples, which cannot be: no more than {} are taken",
                                push.worker, push.samples, kMostSamples));
  if (!std::isfinite(push.rate))
    throw PeerError(fmt::format("worker {} wants a learning rate of {}: it has to be finite", push.worker, push.rate));
}

std::vector<int> TrackedPolicy::waiting() const {
  std::vector<int> ids;
  for (const auto& [id, worker] : workers_)
    if (worker.waiting) ids.push_back(id);
  return ids;
}

bool TrackedPolicy::all_wait() const {
  return std::ranges::all_of(workers_, [](const auto& entry) { return entry.second.waiting; });
}

void TrackedPolicy::release(int id, int64_t time_ns, Answer& answer) {
  Worker& released = worker(id);
  CHECK_TRUE(released.waiting, "worker {} is released twice", id);
  released.waiting = false;
  released.version = version_;
  released.released_ns = time_ns;
  answer.push_back({.kind = Decision::Kind::release, .worker = id, .version = version_});
}

std::string TrackedPolicy::save() const {
  nlohmann::json state = {{"policy", name_}, {"version", version_}, {"workers", nlohmann::json::array()}};
  for (const auto& [id, worker] : workers_)
    state["workers"].push_back({{"id", id},
                                {"waiting", worker.waiting},
                                {"version", worker.version},
                                {"released_ns", worker.released_ns},
                                {"samples", worker.samples},
                                {"finished", worker.finished}});
  save_more(state);
  return state.dump();
}

void TrackedPolicy::load(const std::string& text) {
  try {
    const nlohmann::json state = nlohmann::json::parse(text);
    if (state.at("policy").get<std::string>() != name_)
      throw DataError(
          fmt::format("the saved state is of synchronisation '{}', this is '{}': go on with the recipe "
                      "that the run was started with",
                      state.at("policy").get<std::string>(), name_));
    std::map<int, Worker> workers;
    for (const nlohmann::json& saved : state.at("workers"))
      workers[saved.at("id").get<int>()] = {.waiting = saved.at("waiting").get<bool>(),
                                            .version = saved.at("version").get<uint64_t>(),
                                            .released_ns = saved.at("released_ns").get<int64_t>(),
                                            .samples = saved.at("samples").get<uint64_t>(),
                                            .finished = saved.at("finished").get<uint64_t>()};
    const uint64_t version = state.at("version").get<uint64_t>();
    load_more(state);
    workers_ = std::move(workers);
    version_ = version;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("the saved state of synchronisation '{}' is damaged ({}): start from a checkpoint",
                                name_, error.what()));
  }
}

}  // namespace paceline
