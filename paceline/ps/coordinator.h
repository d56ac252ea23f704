// Coordinator: decides for all shards of a server. It knows who is there (workers have leases that heartbeats renew),
// who computes with which samples (SampleLeases), which pushes have arrived on all shards, and asks the policy what to
// do.
//
// A state machine like the policies: told what arrives, with its time, it answers with what has to be sent. It does no
// I/O. What decides is the order of its events (CoordinatorEvent): they are written to a journal before anything is
// sent, and a coordinator that starts again replays them and is where it was.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/ps/command.h"
#include "paceline/ps/sample_leases.h"
#include "paceline/ps/shard.h"
#include "paceline/sync/policy.h"
#include "paceline/sync/sync_counts.h"

namespace paceline {

// What a worker does next: take the parameters of this version, compute with these samples, push with this number.
struct Assignment {
  uint64_t version = 0;
  uint64_t sequence = 0;  // of the push, from 1; of one worker never the same twice, also when it is started again:
                          // what a shard still has of an earlier incarnation cannot pass for the new one's
  SampleLease lease;

  bool operator==(const Assignment&) const = default;
};

struct PushNews {
  uint64_t sequence = 0;
  uint64_t version = 0;
  uint64_t samples = 0;
  double rate = 0;

  bool operator==(const PushNews&) const = default;
};

// What the journal keeps: what happened, once it has. News of single shards is not in it: shards say again what they
// have staged, and their last report, when they meet a coordinator that started again.
struct CoordinatorEvent {
  enum class Kind : uint8_t { join, leave, push, noise, observe };
  Kind kind = Kind::join;
  int64_t time_ns = 0;
  int worker = -1;           // observe: the observer
  uint64_t incarnation = 0;  // join: chosen by the process that starts, never the same twice
  PushNews push;
  GradientNoise noise;
  uint64_t noise_version = 0;
  uint64_t noise_index = 0;  // of the command that the noise was reported after

  bool operator==(const CoordinatorEvent& other) const;
};

struct CoordinatorOptions {
  std::string policy = "bsp";
  SyncSettings sync;
  LeasePlan plan;
  std::string leases = "";  // SampleLeases::save() of the run that this one goes on from; empty: it begins
  int shards = 1;
  int64_t lease_ns = 10'000'000'000;       // a worker that is silent for so long is gone
  int64_t first_wait_ns = 60'000'000'000;  // that the first step waits for expected workers that have not come
};

class Coordinator {
 public:
  // What has to be sent, in this order.
  struct Outgoing {
    std::vector<CoordinatorEvent> events;  // to the journal, first
    std::vector<Command> commands;         // to every shard
    struct Go {
      int worker = -1;
      std::optional<Assignment> assignment;  // nothing: the run is over for it
    };
    std::vector<Go> go;       // to workers, each beside the release among the commands, or without one: it is over
    std::vector<int> absent;  // expected, but the first step waits for them no more: they never came
    std::vector<int> gone;  // left, or silent for too long: close the connection. Shards forget their places, after the
                            // commands that they were sent so far
  };

  Coordinator(const CoordinatorOptions& options, Registry<PolicyFactory> policies);

  // A worker is there. The same incarnation again (its connection broke, or we started again): its assignment is sent
  // again, with a release command so that shards send parameters again (the newest: they may be newer than the version
  // of the assignment, which stays what the push has to name); while it waits for the others it gets nothing. A new
  // one: the old one has left, this one joins. Where no samples are left it stands by, outside the policy, until
  // another's are given back, or gets a Go without an assignment when all are used. Throws PeerError for an id that
  // cannot be (negative, an observer's). Whether a live worker's number was given twice is for the caller to see: it
  // knows the connections.
  Outgoing join(int worker, uint64_t incarnation, int64_t now_ns);
  Outgoing leave(int worker, int64_t now_ns);  // nothing happens where it is not there
  void heard(int worker, int64_t now_ns);
  Outgoing tick(int64_t now_ns);  // who was silent for too long leaves; who never came is not expected any longer

  // A shard has all of a worker's push. The push happens when every shard has it and, under a policy that waits for
  // all, those of earlier shares have happened: whoever comes first, gradients are summed in the order of the samples,
  // so that two runs have the same bits. News that is old is ignored.
  // Throws PeerError where shards were told different things, or the worker has no such assignment.
  Outgoing staged(int shard, int worker, const PushNews& push, int64_t now_ns);

  // A shard has carried out a command, and all before it; an old report is ignored. With all shards' reports of an
  // accumulation the policy hears of the noise. Throws PeerError for a command that was never given.
  Outgoing reported(int shard, const ShardReport& report, int64_t now_ns);

  // Commands that a shard has not carried out yet, after it started again. They are kept until all shards have reported
  // them. Throws PeerError for a shard that is not of this run: it has carried out fewer than all others once had, or
  // more than there are.
  std::vector<Command> since(uint64_t executed) const;

  // Anybody may look on: a release command for an observer, which shards answer with all that observers want to know.
  // Observers are no workers; their ids are kFirstObserver and above.
  static constexpr int kFirstObserver = 1'000'000;
  Outgoing observe(int observer, int64_t now_ns);

  bool over() const;                 // all samples are used, and nobody computes or waits any more
  uint64_t issued() const;           // the last command's index
  int64_t latest_ns() const;         // of the events: after a restart the clock goes on from here
  std::vector<int> workers() const;  // that are there, ascending: also those that stand by
  const Policy& policy() const;
  const SyncCounts& counts() const;
  const SampleLeases& leases() const;

  // After a restart: from the last snapshot, then every event of the journal, in order; what they decided is not sent
  // again but is in since(). Workers have a whole lease from the next tick() on.
  void replay(const CoordinatorEvent& event);
  std::string save() const;             // JSON
  void load(const std::string& state);  // throws DataError for what save() did not write. REQUIRES: the same options

 private:
  void give_up_absent(int64_t now_ns, Outgoing& out);
  struct Member {
    uint64_t incarnation = 0;
    bool standing_by = false;         // no samples are left for it, and the policy does not know it
    bool computing = false;           // it has an assignment and has not pushed
    uint64_t version = 0;             // of the assignment
    std::optional<int64_t> heard_ns;  // nothing: not since we started
    std::set<int> staged_on;          // shards that have all of its push
    PushNews push;                    // as they were told
  };
  struct PartialNoise {
    int reports = 0;
    GradientNoise sum;
  };

  CoordinatorEvent event(CoordinatorEvent::Kind kind, int worker, int64_t now_ns) const;
  void happened(const CoordinatorEvent& event, Outgoing& out);  // all that follows from an event
  void join_again(int worker, Outgoing& out);
  bool has_pushed(const Member& member) const;  // all of it, to all shards
  void take_push(int worker, int64_t now_ns, Outgoing& out);
  void take_pushes(int64_t now_ns, Outgoing& out);  // all that need not wait for another's, if the policy waits for all
  void tell(const SyncEvent& event, uint64_t sequence, Outgoing& out);
  void use_standby(int64_t time_ns, Outgoing& out);
  bool assign(const Decision& release);
  Assignment assignment_of(int worker) const;
  void command(const Decision& decision, uint64_t sequence, Outgoing& out);
  void check_push(int worker, const PushNews& push) const;
  void check_shard(int shard) const;
  void forget_commands();

  CoordinatorOptions options_;
  std::unique_ptr<Policy> policy_;
  SyncCounts counts_;
  SampleLeases leases_;
  std::map<int, Member> members_;
  std::optional<int64_t> waits_since_ns_;  // the first step, in this process
  std::map<int, uint64_t> sequences_;      // the last one given to each worker that ever was
  uint64_t issued_ = 0;
  std::deque<Command> kept_;                // up to issued_
  std::vector<uint64_t> executed_;          // by each shard, as far as it has said
  std::map<uint64_t, PartialNoise> noise_;  // by the command's index
  int64_t latest_ns_ = 0;
};

}  // namespace paceline
