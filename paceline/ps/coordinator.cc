#include "paceline/ps/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {

using EventKind = CoordinatorEvent::Kind;

bool CoordinatorEvent::operator==(const CoordinatorEvent& other) const {
  return kind == other.kind && time_ns == other.time_ns && worker == other.worker && incarnation == other.incarnation &&
         push == other.push && noise.samples == other.noise.samples &&
         noise.samples_squared == other.noise.samples_squared && noise.mean_norm2 == other.noise.mean_norm2 &&
         noise.spread == other.noise.spread && noise_version == other.noise_version && noise_index == other.noise_index;
}

Coordinator::Coordinator(const CoordinatorOptions& options, Registry<PolicyFactory> policies)
    : options_(options),
      policy_(policies.at(options.policy)(options.sync)),
      leases_(options.plan),
      executed_(static_cast<size_t>(options.shards), 0) {
  CHECK_GT(options.shards, 0);
  if (options.leases.empty()) return;
  leases_.load(options.leases);
  leases_.give_back_all();
}

bool Coordinator::over() const { return leases_.all_used() && members_.empty(); }
uint64_t Coordinator::issued() const { return issued_; }
int64_t Coordinator::latest_ns() const { return latest_ns_; }
const Policy& Coordinator::policy() const { return *policy_; }
const SyncCounts& Coordinator::counts() const { return counts_; }
const SampleLeases& Coordinator::leases() const { return leases_; }

std::vector<int> Coordinator::workers() const {
  std::vector<int> ids;
  for (const auto& [id, member] : members_) ids.push_back(id);
  return ids;
}

// ---- what arrives ----

CoordinatorEvent Coordinator::event(EventKind kind, int worker, int64_t now_ns) const {
  CoordinatorEvent event;
  event.kind = kind;
  event.time_ns = std::max(now_ns, latest_ns_);  // what the policy sees does not go back
  event.worker = worker;
  return event;
}

Coordinator::Outgoing Coordinator::join(int worker, uint64_t incarnation, int64_t now_ns) {
  if (worker < 0 || worker >= kFirstObserver)
    throw PeerError(
        fmt::format("worker {} wants to join: workers are numbered from 0 to {}", worker, kFirstObserver - 1));
  Outgoing out;
  const auto found = members_.find(worker);
  const bool known = found != members_.end();
  const bool again = known && found->second.incarnation == incarnation;
  if (known && !again) happened(event(EventKind::leave, worker, now_ns), out);
  if (!again || found->second.computing) {
    CoordinatorEvent join = event(EventKind::join, worker, now_ns);
    join.incarnation = incarnation;
    happened(join, out);
  }
  take_pushes(now_ns, out);
  heard(worker, now_ns);
  return out;
}

Coordinator::Outgoing Coordinator::leave(int worker, int64_t now_ns) {
  Outgoing out;
  if (!members_.contains(worker)) return out;
  happened(event(EventKind::leave, worker, now_ns), out);
  take_pushes(now_ns, out);
  out.gone.push_back(worker);
  return out;
}

void Coordinator::heard(int worker, int64_t now_ns) {
  if (const auto found = members_.find(worker); found != members_.end()) found->second.heard_ns = now_ns;
}

Coordinator::Outgoing Coordinator::tick(int64_t now_ns) {
  Outgoing out;
  std::vector<int> silent;
  for (auto& [id, member] : members_) {
    if (!member.heard_ns) member.heard_ns = now_ns;
    if (now_ns - *member.heard_ns > options_.lease_ns) silent.push_back(id);
  }
  for (const int id : silent) {
    if (!members_.contains(id)) continue;  // it was over for it when another one left
    happened(event(EventKind::leave, id, now_ns), out);
    out.gone.push_back(id);
  }
  give_up_absent(now_ns, out);
  take_pushes(now_ns, out);
  return out;
}

// To the policy they have come and left.
void Coordinator::give_up_absent(int64_t now_ns, Outgoing& out) {
  if (policy_->version() > 0 || members_.empty()) return;
  if (!waits_since_ns_) waits_since_ns_ = now_ns;
  if (now_ns - *waits_since_ns_ <= options_.first_wait_ns) return;
  for (int id = 0; id < options_.sync.workers; ++id) {
    if (sequences_.contains(id) || members_.contains(id)) continue;
    happened(event(EventKind::join, id, now_ns), out);
    if (members_.contains(id)) happened(event(EventKind::leave, id, now_ns), out);
    out.absent.push_back(id);
  }
  std::erase_if(out.go,
                [&](const Outgoing::Go& go) { return std::ranges::find(out.absent, go.worker) != out.absent.end(); });
}

Coordinator::Outgoing Coordinator::staged(int shard, int worker, const PushNews& push, int64_t now_ns) {
  check_shard(shard);
  Outgoing out;
  const auto found = members_.find(worker);
  if (found == members_.end()) return out;
  Member& member = found->second;
  const auto given = sequences_.find(worker);
  if (given == sequences_.end()) throw PeerError(fmt::format("worker {} pushed, but was given no samples", worker));
  const uint64_t newest = given->second;
  if (push.sequence < newest || (push.sequence == newest && !member.computing)) return out;
  check_push(worker, push);
  if (!member.staged_on.empty() && !(member.push == push))
    throw PeerError(
        fmt::format("shards were told different things about push {} of worker {}: restart the worker, and look "
                    "whether all processes run the same version",
                    push.sequence, worker));
  member.heard_ns = now_ns;
  member.push = push;
  member.staged_on.insert(shard);
  if (policy_->waits_for_all())
    take_pushes(now_ns, out);
  else if (has_pushed(member))
    take_push(worker, now_ns, out);
  return out;
}

bool Coordinator::has_pushed(const Member& member) const {
  return static_cast<int>(member.staged_on.size()) == options_.shards;
}

void Coordinator::take_push(int worker, int64_t now_ns, Outgoing& out) {
  CoordinatorEvent pushed = event(EventKind::push, worker, now_ns);
  pushed.push = members_.at(worker).push;
  happened(pushed, out);
}

void Coordinator::take_pushes(int64_t now_ns, Outgoing& out) {
  if (!policy_->waits_for_all() || policy_->to_come() > 0) return;
  std::optional<int> next = leases_.earliest();
  for (; next && has_pushed(members_.at(*next)); next = leases_.earliest()) take_push(*next, now_ns, out);
}

void Coordinator::check_push(int worker, const PushNews& push) const {
  const Member& member = members_.at(worker);
  if (!member.computing || push.sequence != sequences_.at(worker) || push.version != member.version)
    throw PeerError(
        fmt::format("worker {} pushed number {} of version {}, but its assignment is number {} of version {}: it has "
                    "to compute with what it was given",
                    worker, push.sequence, push.version, sequences_.at(worker), member.version));
  if (push.samples == 0 || !std::isfinite(push.rate) || push.rate < 0)
    throw PeerError(
        fmt::format("worker {} pushed a gradient of {} samples at a rate of {}: there has to be a sample, and the rate "
                    "has to be finite and not negative",
                    worker, push.samples, push.rate));
  const uint64_t given = leases_.held(worker).value().range.size();
  if (push.samples != given)  // what a gradient weighs among the others
    throw PeerError(
        fmt::format("worker {} pushed a gradient of {} samples, but was given {}: it has to compute with "
                    "all of what it was given",
                    worker, push.samples, given));
}

void Coordinator::check_shard(int shard) const {
  if (shard < 0 || shard >= options_.shards)
    throw PeerError(
        fmt::format("shard {} reports, but this run has {}: look at the servers' options", shard, options_.shards));
}

Coordinator::Outgoing Coordinator::reported(int shard, const ShardReport& report, int64_t now_ns) {
  check_shard(shard);
  if (report.index > issued_)
    throw PeerError(fmt::format(
        "shard {} has carried out command {}, but only {} were given: its state is of another run; remove it, or start "
        "from a checkpoint",
        shard, report.index, issued_));
  Outgoing out;
  uint64_t& executed = executed_[static_cast<size_t>(shard)];
  if (report.index <= executed) return out;
  executed = report.index;

  // executed_ is never below what was kept, so the command is there.
  const Command reported = kept_.at(kept_.size() - 1 - (issued_ - report.index));
  if (policy_->wants_noise() && reported.decision.kind == Decision::Kind::accumulate) {
    PartialNoise& partial = noise_[report.index];
    GradientNoise& sum = partial.sum;
    sum.samples = report.noise.samples;
    sum.samples_squared = report.noise.samples_squared;
    sum.mean_norm2 += report.noise.mean_norm2;
    sum.spread += report.noise.spread;
    if (++partial.reports == options_.shards && sum.samples > 0) {
      CoordinatorEvent noise = event(EventKind::noise, -1, now_ns);
      noise.noise = sum;
      noise.noise_version = reported.decision.version;
      noise.noise_index = report.index;
      happened(noise, out);
    }
  }
  forget_commands();
  return out;
}

void Coordinator::forget_commands() {
  const uint64_t everywhere = *std::ranges::min_element(executed_);
  while (!kept_.empty() && kept_.front().index <= everywhere) kept_.pop_front();
  noise_.erase(noise_.begin(), noise_.upper_bound(everywhere));
}

std::vector<Command> Coordinator::since(uint64_t executed) const {
  const uint64_t forgotten = issued_ - kept_.size();
  if (executed < forgotten || executed > issued_)
    throw PeerError(fmt::format(
        "a shard has carried out {} commands, but this coordinator can go on from {} to {}: its state is of another "
        "run or lost; start all servers from a checkpoint",
        executed, forgotten, issued_));
  return {kept_.begin() + static_cast<std::ptrdiff_t>(executed - forgotten), kept_.end()};
}

Coordinator::Outgoing Coordinator::observe(int observer, int64_t now_ns) {
  if (observer < kFirstObserver)
    throw PeerError(
        fmt::format("observer {} wants to look on: observers are numbered from {}", observer, kFirstObserver));
  Outgoing out;
  happened(event(EventKind::observe, observer, now_ns), out);
  return out;
}

void Coordinator::replay(const CoordinatorEvent& event) {
  Outgoing already_sent;
  happened(event, already_sent);
}

// ---- what follows from it ----

void Coordinator::happened(const CoordinatorEvent& event, Outgoing& out) {
  out.events.push_back(event);
  latest_ns_ = event.time_ns;
  switch (event.kind) {
    case EventKind::join:
      if (members_.contains(event.worker)) {
        join_again(event.worker, out);
      } else {
        members_[event.worker] = {.incarnation = event.incarnation};
        tell({.kind = SyncEvent::Kind::join, .time_ns = event.time_ns, .worker = event.worker}, 0, out);
      }
      break;
    case EventKind::leave: {
      const bool in_policy = !members_.at(event.worker).standing_by;
      leases_.give_back(event.worker);  // first: whoever is released by the leave may take it
      members_.erase(event.worker);
      if (in_policy) tell({.kind = SyncEvent::Kind::leave, .time_ns = event.time_ns, .worker = event.worker}, 0, out);
      break;
    }
    case EventKind::push:
      tell({.kind = SyncEvent::Kind::push,
            .time_ns = event.time_ns,
            .worker = event.worker,
            .version = event.push.version,
            .samples = event.push.samples,
            .rate = event.push.rate},
           event.push.sequence, out);
      break;
    case EventKind::noise:
      for (uint64_t& executed : executed_) executed = std::max(executed, event.noise_index);
      tell({.kind = SyncEvent::Kind::noise,
            .time_ns = event.time_ns,
            .version = event.noise_version,
            .noise = event.noise},
           0, out);
      forget_commands();
      break;
    case EventKind::observe:
      command({.kind = Decision::Kind::release, .worker = event.worker, .version = policy_->version()}, 0, out);
      break;
  }
  use_standby(event.time_ns, out);
}

void Coordinator::join_again(int worker, Outgoing& out) {
  CHECK_TRUE(members_.at(worker).computing, "worker {} joins again, but has no assignment", worker);
  command({.kind = Decision::Kind::release, .worker = worker, .version = policy_->version()}, sequences_.at(worker),
          out);
  out.go.push_back({.worker = worker, .assignment = assignment_of(worker)});
}

// The policy hears of an event, its decisions are carried out, and what follows from those: a worker that is released
// but finds no samples leaves the policy, so that nobody waits for it.
void Coordinator::tell(const SyncEvent& event, uint64_t sequence, Outgoing& out) {
  const std::vector<Decision> decisions = policy_->on(event);
  counts_.observe(event, decisions);
  if (event.kind == SyncEvent::Kind::push) {
    leases_.use(event.worker);
    members_.at(event.worker).computing = false;
  }
  std::vector<int> idle;
  for (const Decision& decision : decisions) {
    if (decision.kind != Decision::Kind::release) {
      command(decision, decision.kind == Decision::Kind::step ? 0 : sequence, out);
    } else if (assign(decision)) {
      command(decision, sequences_.at(decision.worker), out);
      out.go.push_back({.worker = decision.worker, .assignment = assignment_of(decision.worker)});
    } else {
      idle.push_back(decision.worker);
    }
  }
  for (const int worker : idle) {
    members_.at(worker).standing_by = true;
    tell({.kind = SyncEvent::Kind::leave, .time_ns = event.time_ns, .worker = worker}, 0, out);
  }
}

// Those who stand by come in where samples have been given back, and go where none can be any more.
void Coordinator::use_standby(int64_t time_ns, Outgoing& out) {
  for (const int worker : workers()) {
    Member& member = members_.at(worker);
    if (!member.standing_by || !leases_.available()) continue;
    member.standing_by = false;
    tell({.kind = SyncEvent::Kind::join, .time_ns = time_ns, .worker = worker}, 0, out);
  }
  if (!leases_.all_used()) return;
  for (const int worker : workers()) {
    if (!members_.at(worker).standing_by) continue;
    members_.erase(worker);
    out.go.push_back({.worker = worker, .assignment = std::nullopt});
  }
}

bool Coordinator::assign(const Decision& release) {
  if (!leases_.lease(release.worker)) return false;
  Member& member = members_.at(release.worker);
  member.computing = true;
  member.version = release.version;
  member.staged_on.clear();
  ++sequences_[release.worker];
  return true;
}

Assignment Coordinator::assignment_of(int worker) const {
  return {
      .version = members_.at(worker).version, .sequence = sequences_.at(worker), .lease = leases_.held(worker).value()};
}

void Coordinator::command(const Decision& decision, uint64_t sequence, Outgoing& out) {
  kept_.push_back({.index = ++issued_, .sequence = sequence, .decision = decision});
  out.commands.push_back(kept_.back());
}

}  // namespace paceline
