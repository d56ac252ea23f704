#include "paceline/ps/sample_leases.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/core/json_number.h"

namespace paceline {
namespace {

nlohmann::json to_json(const SampleLease& lease) {
  return {lease.number, lease.step,        lease.cursor_samples, lease.global_count,
          lease.share,  lease.range.epoch, lease.range.begin,    lease.range.end};
}

int small_natural_of(const nlohmann::json& value) {
  return static_cast<int>(natural_of(value, std::numeric_limits<int>::max()));
}

SampleLease lease_from(const nlohmann::json& saved, uint64_t data_size) {
  const SampleLease lease = {
      .number = natural_of(saved.at(0)),
      .step = natural_of(saved.at(1)),
      .cursor_samples = natural_of(saved.at(2)),
      .global_count = natural_of(saved.at(3)),
      .share = small_natural_of(saved.at(4)),
      .range = {.epoch = natural_of(saved.at(5)), .begin = natural_of(saved.at(6)), .end = natural_of(saved.at(7))}};
  if (lease.range.begin >= lease.range.end || lease.range.end > data_size || lease.range.size() > lease.global_count) {
    throw DataError(
        fmt::format("the saved state of the samples is damaged (samples {} to {} of {}, of a batch of {}): "
                    "start from a checkpoint",
                    lease.range.begin, lease.range.end, data_size, lease.global_count));
  }
  return lease;
}

}  // namespace

SampleLeases::SampleLeases(LeasePlan plan) : plan_(std::move(plan)) {
  CHECK_GT(plan_.data_size, 0u);
  CHECK_GT(plan_.workers, 0);
  next_ = share_at(0, plan_.begin_step, plan_.begin_samples, 0);
}

std::optional<SampleLease> SampleLeases::share_at(uint64_t number, uint64_t step, uint64_t cursor_samples,
                                                  int index) const {
  // Empty shares are the last ones of their batch; every batch has samples, so its first share is never empty.
  while (cursor_samples < plan_.total_samples) {
    const BatchRange global = next_batch(cursor_samples, plan_.data_size, plan_.global_batch);
    if (index < plan_.workers) {
      const BatchRange range = paceline::share(global, index, plan_.workers);
      if (range.size() > 0)
        return SampleLease{.number = number,
                           .step = step,
                           .cursor_samples = cursor_samples,
                           .global_count = global.size(),
                           .share = index,
                           .range = range};
    }
    cursor_samples += global.size();
    ++step;
    index = 0;
  }
  return std::nullopt;
}

std::optional<SampleLease> SampleLeases::share_numbered(uint64_t number) const {
  std::optional<SampleLease> share = SampleLeases(plan_).next_;
  while (share && share->number < number) share = after(*share);
  return share;
}

std::optional<SampleLease> SampleLeases::after(const SampleLease& lease) const {
  return share_at(lease.number + 1, lease.step, lease.cursor_samples, lease.share + 1);
}

std::optional<SampleLease> SampleLeases::lease(int worker) {
  CHECK_TRUE(!held_.contains(worker), "worker {} leases a share, but has one", worker);
  std::optional<SampleLease> lease;
  if (!returned_.empty()) {
    lease = returned_.extract(returned_.begin()).mapped();
  } else if (available()) {
    lease = take_new(worker);
  }
  if (lease) {
    held_.emplace(worker, *lease);
    holders_.emplace(lease->number, worker);
  }
  return lease;
}

SampleLease SampleLeases::take_new(int worker) {
  if (begun_.empty()) {
    const uint64_t step = next_->step;
    for (; next_ && next_->step == step; next_ = after(*next_)) begun_.emplace(next_->number, *next_);
  }
  auto chosen = std::ranges::find(begun_, worker, [](const auto& each) { return each.second.share; });
  if (chosen == begun_.end()) chosen = begun_.begin();
  return begun_.extract(chosen).mapped();
}

std::optional<SampleLease> SampleLeases::held(int worker) const {
  const auto found = held_.find(worker);
  return found == held_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int> SampleLeases::earliest() const {
  return holders_.empty() ? std::nullopt : std::optional(holders_.begin()->second);
}

void SampleLeases::use(int worker) {
  const auto found = held_.find(worker);
  CHECK_TRUE(found != held_.end(), "worker {} has used a share, but has none", worker);
  used_samples_ += found->second.range.size();
  ++used_shares_;
  holders_.erase(found->second.number);
  held_.erase(found);
}

void SampleLeases::give_back(int worker) {
  const auto found = held_.find(worker);
  if (found == held_.end()) return;
  returned_.emplace(found->second.number, found->second);
  holders_.erase(found->second.number);
  held_.erase(found);
}

void SampleLeases::give_back_all() {
  while (!held_.empty()) give_back(held_.begin()->first);
}

bool SampleLeases::available() const { return next_ || !begun_.empty() || !returned_.empty(); }
bool SampleLeases::all_used() const { return !available() && held_.empty(); }
uint64_t SampleLeases::used_samples() const { return used_samples_; }
uint64_t SampleLeases::used_shares() const { return used_shares_; }

std::string SampleLeases::save() const {
  nlohmann::json state = {{"used_samples", used_samples_},
                          {"used_shares", used_shares_},
                          {"next", next_ ? to_json(*next_) : nlohmann::json()},
                          {"begun", nlohmann::json::array()},
                          {"returned", nlohmann::json::array()},
                          {"held", nlohmann::json::array()}};
  for (const auto& [number, lease] : begun_) state["begun"].push_back(to_json(lease));
  for (const auto& [number, lease] : returned_) state["returned"].push_back(to_json(lease));
  for (const auto& [worker, lease] : held_) state["held"].push_back({worker, to_json(lease)});
  return state.dump();
}

void SampleLeases::load(const std::string& text) {
  try {
    const nlohmann::json state = nlohmann::json::parse(text);
    SampleLeases loaded(plan_);
    loaded.used_samples_ = natural_of(state.at("used_samples"));
    loaded.used_shares_ = natural_of(state.at("used_shares"));
    loaded.next_ =
        state.at("next").is_null() ? std::nullopt : std::optional(lease_from(state.at("next"), plan_.data_size));
    const auto load_into = [&](std::map<uint64_t, SampleLease>& leases, const char* key) {
      for (const nlohmann::json& saved : state.value(key, nlohmann::json::array())) {
        const SampleLease lease = lease_from(saved, plan_.data_size);
        leases.emplace(lease.number, lease);
      }
    };
    load_into(loaded.begun_, "begun");
    load_into(loaded.returned_, "returned");
    for (const nlohmann::json& saved : state.at("held")) {
      const auto [held, added] =
          loaded.held_.emplace(small_natural_of(saved.at(0)), lease_from(saved.at(1), plan_.data_size));
      if (added) loaded.holders_.emplace(held->second.number, held->first);
    }
    // The last batch was begun; but of a plan that has become longer there are more.
    if (!loaded.next_)
      loaded.next_ = loaded.share_numbered(loaded.used_shares_ + loaded.held_.size() + loaded.returned_.size() +
                                           loaded.begun_.size());
    *this = std::move(loaded);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(
        fmt::format("the saved state of the samples is damaged ({}): start from a checkpoint", error.what()));
  }
}

}  // namespace paceline
