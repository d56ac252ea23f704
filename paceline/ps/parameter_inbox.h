// ParameterInbox: what servers send to a worker: its next assignment from shard 0, parameters from all of them. A
// thread for each connection, so that shards come in side by side and a server that dies is noticed, whichever it is.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "paceline/ps/protocol.h"
#include "paceline/ps/shard_map.h"
#include "paceline/ps/transport.h"

namespace paceline {

class ParameterInbox {
 public:
  using Line = std::shared_ptr<ClientConnection>;

  explicit ParameterInbox(const ShardMap& map);
  ~ParameterInbox();

  void open(std::vector<Line> lines);  // to all shards. REQUIRES: it is closed
  void close();                        // the connections, too. What was expected comes no more
  bool is_open() const { return !lines_.empty(); }
  Line line(int shard) const;  // nothing while closed
  // To shard 0, if it is there, from another thread than the one that opens and closes.
  void send_aside(Message message);

  // In this order, by one thread; each throws PeerError when a connection has broken.
  void expect();                       // before anything is sent that a Go is the answer to
  GoHead wait_go();                    // where it is over, nothing follows
  void accept(std::span<float> into);  // the parameters of that Go; empty: they are thrown away
  void wait_parameters();

  uint64_t received_bytes() const;

 private:
  void receive(int shard, ClientConnection& line);  // until it breaks
  void take(int shard, const ParametersHead& head, const Body& body);
  void check() const;  // with the mutex held: throws where something has broken

  const ShardMap& map_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Line> lines_;
  std::mutex aside_;  // held while somebody else uses a connection: it must not be the last to let go of it
  std::vector<std::thread> threads_;
  bool closing_ = false, accepting_ = false;
  std::optional<std::string> broken_;
  std::optional<GoHead> go_;
  uint64_t finished_ = 0;  // the release whose parameters are all there
  std::span<float> into_;
  std::vector<uint64_t> arrived_;  // elements of each shard
  size_t missing_ = 0;             // shards
  uint64_t received_bytes_ = 0;
};

}  // namespace paceline
