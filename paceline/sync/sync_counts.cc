#include "paceline/sync/sync_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr uint64_t kCountedExactly = 256;

uint64_t staleness_class(uint64_t staleness) {
  if (staleness < kCountedExactly) return staleness;
  const int shift = std::bit_width(staleness) - 4;  // three binary digits stay after the first
  return ((staleness >> shift) << shift) + (uint64_t{1} << (shift - 1));
}

}  // namespace

void SyncCounts::observe(const SyncEvent& event, const std::vector<Decision>& decisions) {
  if (event.kind == SyncEvent::Kind::join) finished_[event.worker] = slowest();
  if (event.kind == SyncEvent::Kind::leave) finished_.erase(event.worker);
  if (event.kind == SyncEvent::Kind::push) {
    ++finished_[event.worker];
    ++staleness_[staleness_class(version_ - event.version)];
  }
  largest_gap_ = std::max(largest_gap_, gap());

  for (const Decision& decision : decisions) {
    switch (decision.kind) {
      case Decision::Kind::accumulate:
        ++workers_[decision.worker].accumulated;
        ++round_gradients_;
        break;
      case Decision::Kind::apply:
        ++workers_[decision.worker].applied;
        last_step_gradients_ = 1;
        version_ = decision.version;
        break;
      case Decision::Kind::merge:
      case Decision::Kind::merge_mean:
        ++workers_[decision.worker].merged;
        break;
      case Decision::Kind::drop:
        ++workers_[decision.worker].dropped;
        break;
      case Decision::Kind::exchange:
        ++workers_[decision.worker].exchanged;
        break;
      case Decision::Kind::step:
        last_step_gradients_ = round_gradients_;
        round_gradients_ = 0;
        version_ = decision.version;
        break;
      case Decision::Kind::release:
        break;
    }
  }
}

SyncCounts::OfWorker SyncCounts::total() const {
  OfWorker sum;
  for (const auto& [id, of] : workers_) {
    sum.accumulated += of.accumulated;
    sum.applied += of.applied;
    sum.merged += of.merged;
    sum.dropped += of.dropped;
    sum.exchanged += of.exchanged;
  }
  return sum;
}

uint64_t SyncCounts::slowest() const {
  if (finished_.empty()) return 0;
  return std::ranges::min_element(finished_, {}, [](const auto& entry) { return entry.second; })->second;
}

uint64_t SyncCounts::gap() const {
  uint64_t fastest = slowest();
  for (const auto& [id, finished] : finished_) fastest = std::max(fastest, finished);
  return fastest - slowest();
}

std::string SyncCounts::save() const {
  nlohmann::json workers = nlohmann::json::object();
  for (const auto& [id, of] : workers_)
    workers[fmt::format("{}", id)] = {of.accumulated, of.applied, of.merged, of.dropped, of.exchanged};
  return nlohmann::json{{"workers", workers},
                        {"staleness", staleness_},
                        {"finished", finished_},
                        {"version", version_},
                        {"largest_gap", largest_gap_},
                        {"round_gradients", round_gradients_},
                        {"last_step_gradients", last_step_gradients_}}
      .dump();
}

void SyncCounts::load(const std::string& text) {
  try {
    const nlohmann::json counts = nlohmann::json::parse(text);
    SyncCounts loaded;
    for (const auto& [id, of] : counts.at("workers").items())
      loaded.workers_[nlohmann::json::parse(id).get<int>()] = {of.at(0).get<uint64_t>(), of.at(1).get<uint64_t>(),
                                                               of.at(2).get<uint64_t>(), of.at(3).get<uint64_t>(),
                                                               of.at(4).get<uint64_t>()};
    for (const auto& [staleness, gradients] : counts.at("staleness").get<std::map<uint64_t, uint64_t>>())
      loaded.staleness_[staleness_class(staleness)] += gradients;
    loaded.finished_ = counts.at("finished").get<std::map<int, uint64_t>>();
    loaded.version_ = counts.at("version").get<uint64_t>();
    loaded.largest_gap_ = counts.at("largest_gap").get<uint64_t>();
    loaded.round_gradients_ = counts.at("round_gradients").get<int>();
    loaded.last_step_gradients_ = counts.at("last_step_gradients").get<int>();
    *this = loaded;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(
        fmt::format("the saved counts of the synchronisation are damaged ({}): start from a checkpoint", error.what()));
  }
}

}  // namespace paceline
