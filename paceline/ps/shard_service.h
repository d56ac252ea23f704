// ShardService: a shard at work: takes in gradients, carries out commands in order, sends parameters and snapshots.
//
// Gradients arrive on the transport's threads; everything else happens on a strand. Nothing there waits: a command that
// needs the norms of whole tensors (LARS on several shards) stays at the head of the queue until they are there.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "paceline/ps/protocol.h"
#include "paceline/ps/push_intake.h"
#include "paceline/ps/server.h"
#include "paceline/ps/shared_copies.h"
#include "paceline/ps/strand.h"

namespace paceline {

// What a shard tells its coordinator, wherever that is. Called on any thread; does not wait, does not throw.
class ShardUplink {
 public:
  virtual ~ShardUplink() = default;
  virtual void staged(int worker, const PushNews& push) = 0;
  virtual void reported(const ShardReport& report) = 0;
  virtual void norms(uint64_t index, std::vector<SquaredNorms> norms) = 0;
  virtual void missing(int worker, uint64_t sequence) = 0;  // a command was about a push that is not there
};

// An observer's place among the workers of release commands says what it wants to see, so that all shards know.
int observer_place(int observer, bool states);
inline constexpr int kMostObservers = 1'000;

class ShardService {
 public:
  ShardService(const ServerOptions& options, std::span<const float> initial, Strand& strand, ShardUplink& uplink);

  // ---- on the transport's threads ----
  void worker_is_here(int worker, uint64_t incarnation, const std::shared_ptr<Connection>& connection);
  void observer_is_here(int observer, const std::shared_ptr<Connection>& connection);
  void is_gone(PeerRole role, int id, const Connection* connection);
  void push(int worker, const Connection* connection, const PushHead& head, const Body& body);

  // ---- from anywhere, in the order in which the coordinator decided ----
  void command(const Command& command);  // those that are known already are left aside
  void forget(int worker);
  void whole_norms(uint64_t index, std::vector<SquaredNorms> norms);
  void tell_again();  // the coordinator may have lost what it was told: its process, or the connection, is new

  uint64_t executed() const { return executed_; }
  uint64_t version() const { return version_; }

  ShardLoad load() const;
  std::vector<int> workers() const { return intake_.workers(); }  // connected

 private:
  void restart(const ServerRestart& from);
  struct Forget {
    int worker;
  };

  void carry_on();                         // as far as it goes
  bool carry_out(const Command& command);  // false: norms are missing
  void release(const Command& command);
  void send_parameters(const Command& command, const PushIntake::Target& worker);
  void send_snapshot(const Command& command);
  std::shared_ptr<const std::vector<float>> newest();

  const ServerOptions& options_;
  Strand& strand_;
  ShardUplink& uplink_;
  Shard shard_;
  PushIntake intake_;
  std::mutex observers_mutex_;
  std::map<int, std::shared_ptr<Connection>> observers_;

  // On the strand:
  std::deque<std::variant<Command, Forget>> queue_;
  uint64_t queued_;           // the last command's index
  uint64_t norms_told_ = 0;   // of which command
  uint64_t whole_index_ = 0;  // of which command whole_ is
  std::vector<SquaredNorms> whole_;
  std::deque<ShardReport> reports_;  // the last ones
  SharedCopies copies_;
  std::map<int, uint64_t> exchanged_;  // workers that go on with their own parameters, and their incarnations
  std::shared_ptr<const std::vector<float>> newest_;  // what workers get; nothing: not copied yet

  std::atomic<uint64_t> executed_, version_, bytes_in_ = 0, bytes_out_ = 0;
  std::atomic<int64_t> busy_ns_ = 0;
};

}  // namespace paceline
