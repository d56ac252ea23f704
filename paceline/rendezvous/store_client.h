// StoreClient: a rank's connection to the StoreServer. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/comm/diagnosis.h"
#include "paceline/comm/store.h"
#include "paceline/rendezvous/secret.h"

namespace paceline {

// What the server tells a watching connection without being asked.
struct StoreNews {
  enum class Kind : uint8_t {
    died,     // the process of `rank` is gone: text says how
    ended,    // `rank` left in order
    failed,   // `rank` found that the run cannot go on: text is its error
    ask,      // some rank is stalled: report your status
    statuses  // `group` as its ranks reported it; those that have not: unknown
  };
  Kind kind;
  int rank = 0;
  std::string text;
  std::string group;
  std::vector<RankStatus> statuses;
};

// Of died or failed: "rank 3 died: killed by signal 9", "rank 2 reported: ...", or its text, if that begins with a
// rank.
std::string failure_text(const StoreNews& news);

class StoreClient : public Store {
 public:
  struct Options {
    std::string host;
    uint16_t port = 0;
    int rank = 0;
    uint64_t generation = 0;
    // A watching connection stands for the life of its rank: the server tells all when it breaks, and sends news.
    bool watching = false;
    int64_t timeout_ms = 60'000;  // to connect, trying again while nobody listens yet
  };
  // Throws PeerError: nobody listens, the name does not resolve, the secret is wrong, another generation, another
  // process has this rank (of a watching connection).
  StoreClient(const Options& options, const Secret& secret);
  // A watching connection says farewell: its rank has ended in order. Waits until the server knows (at most a second).
  ~StoreClient() override;

  // Keys have at most 1 KiB, values at most 64 MiB.
  void set(const std::string& key, const std::string& value) override;
  // Also throws, at once, when some rank died or failed.
  std::string get(const std::string& key, int64_t timeout_ms) override;

  // The address by which this host reached the server: where other hosts can reach this one.
  std::string local_address() const;

  // ---- of a watching connection ----
  int descriptor() const;  // to poll for news
  // All news that have come; never waits. Throws PeerError when the server is gone.
  std::vector<StoreNews> news();
  // What this rank, which is stalled, does in `group`, whose members' world ranks are given. The server asks the others
  // and answers with statuses: once for each report, as soon as they have answered or at most 50 ms later.
  void report(const std::string& group, const std::vector<int>& world_ranks, const RankStatus& mine);
  // The same of a rank that was asked, or is about to leave. Nobody is asked, and no answer comes.
  void answer(const std::string& group, const RankStatus& mine);
  void fail(const std::string& text);  // tells every rank

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace paceline
