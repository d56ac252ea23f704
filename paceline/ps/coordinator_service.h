// CoordinatorService: the coordinator at work, in the process of shard 0: it writes what happens to the journal, and
// sends what is decided to workers, shards and observers. Everything happens on one strand, in one order.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "paceline/ps/coordinator.h"
#include "paceline/ps/journal.h"
#include "paceline/ps/protocol.h"
#include "paceline/ps/server.h"
#include "paceline/ps/shard_service.h"
#include "paceline/ps/strand.h"
#include "paceline/ps/whole_norms.h"
#include "paceline/ps/worker_statistics.h"

namespace paceline {

class CoordinatorService : public ShardUplink {
 public:
  // `first_update`: how many updates the run had made before version 0.
  CoordinatorService(const ServerOptions& options, uint64_t first_update, Strand& strand);
  void start(ShardService& own);  // shard 0's, which stays

  // ---- what connections bring; from any thread ----
  using Peer = std::shared_ptr<Connection>;
  void join(int worker, uint64_t incarnation, Peer connection);
  void heartbeat(int worker) {
    strand_.post([=, this] { coordinator_.heard(worker, now_ns()); });
  }
  void leave(int worker, uint64_t incarnation);
  void statistics(int worker, const Body& body);
  // It sent what no worker sends: nobody waits for it until its lease ends, and what it told is forgotten.
  void expel(int worker, const Peer& connection);
  void observe(int observer, const ObserveHead& wish, Peer connection);
  void shard_is_here(int shard, uint64_t executed, Peer connection);
  void from_shard(int shard, Head head);  // staged, report, norms, missing
  void is_gone(PeerRole role, int id, Peer connection);
  void tick();

  // ---- of shard 0 itself ----
  void staged(int worker, const PushNews& push) override;
  void reported(const ShardReport& report) override;
  void norms(uint64_t index, std::vector<SquaredNorms> norms) override;
  void missing(int worker, uint64_t sequence) override;

  bool over() const { return over_; }            // the run is
  bool everybody_left() const { return left_; }  // and all workers have been told, and have left
  std::string metrics();                         // JSON; waits for the strand
  void end();                                    // tells the other shards that the run is over

 private:
  struct Worker {
    uint64_t incarnation = 0;
    Peer connection;
  };

  int64_t now_ns();
  void snapshot();
  void keep_statistics(int worker);
  void deliver(const Coordinator::Outgoing& outgoing);
  void send_go(const Coordinator::Outgoing::Go& go, const std::vector<Command>& commands);
  void to_shards(const Message& message);
  void shard_news(int shard, const Head& head);
  void sum_norms(int shard, NormsHead head);
  void expel_for_missing(int shard, const MissingHead& missing);
  void answer(int observer, const ObserveHead& wish, const Peer& connection);
  enum class MetricsOf : uint8_t { workers, shards, run };  // the run alone, its shards, too, and its workers, too
  std::string metrics_text(MetricsOf detail) const;

  const ServerOptions& options_;
  const uint64_t first_update_;
  Strand& strand_;
  ShardService* own_ = nullptr;

  // On the strand:
  Coordinator coordinator_;
  Journal journal_;
  WholeNorms whole_norms_;
  int64_t last_ns_ = 0, offset_ns_ = 0;
  std::map<int, Worker> workers_;  // that have joined over a connection
  std::map<int, Peer> shards_;
  std::map<int, uint64_t> executed_;  // by shard, as they report
  std::map<int, ShardLoad> loads_;    // of all but our own
  std::set<int> forgotten_;           // shards that were away need to hear of them
  WorkerStatistics statistics_;
  std::map<int, std::function<void()>> until_step_;    // answers to observers that wait for the end of a round
  uint64_t snapshot_at_ = options_.events_of_journal;  // events in the journal

  std::mutex told_mutex_;
  std::map<int, std::vector<float>> told_statistics_;  // that the strand has not taken yet

  bool was_over_ = false;  // when it started: workers that were not told may still call
  std::atomic<bool> over_ = false, left_ = false;
};

}  // namespace paceline
