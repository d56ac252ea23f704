// PushIntake: gradients on their way into a shard. It knows which workers are connected, decodes their segments to
// where the shard wants them, in whatever order they come, and tells when a push is whole.
//
// Thread-safe: connections are served by several threads, and a worker may still have an old connection.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/ps/coverage.h"
#include "paceline/ps/protocol.h"
#include "paceline/ps/shard.h"
#include "paceline/ps/transport.h"

namespace paceline {

class PushIntake {
 public:
  // Throws UsageError for a codec whose messages could not be checked (those of any length).
  PushIntake(Shard& shard, const std::string& codec);

  // A worker's connection is here. It may push on it once parameters have been sent to it. The one that it had before,
  // if any, is closed. Throws PeerError where another process with its number is connected.
  void sit_down(int worker, uint64_t incarnation, std::shared_ptr<Connection> connection);
  void stand_up(int worker, const Connection* connection);

  // A segment. The news of the push when with it all of the push is there (or was already). Throws PeerError for what
  // cannot be: the connection is to be closed.
  std::optional<PushNews> take(int worker, const Connection* connection, const PushHead& head, const Body& body);

  // Where the worker's parameters go; nothing when it is not connected. From now on it may make the push of this
  // sequence number, and no other: a worker cannot overwrite a gradient that a command will be about.
  struct Target {
    std::shared_ptr<Connection> connection;
    uint64_t incarnation = 0;
  };
  Target release(int worker, uint64_t sequence);
  uint64_t pushed_by(int worker) const;  // which incarnation's its last whole push is

  // Its gradient's place is free, and what still arrives for it refused: its connection is closed, unless it is that of
  // a successor, which was released never.
  void forget(int worker);

  // Pushes that are whole and that no command has been about, of workers that are connected.
  struct Whole {
    int worker = -1;
    PushNews push;
  };
  std::vector<Whole> whole() const;
  std::vector<int> workers() const;  // connected

 private:
  struct Seat {
    std::mutex mutex;
    uint64_t incarnation = 0;
    std::shared_ptr<Connection> connection;
    std::unique_ptr<Codec> codec;
    std::vector<float> scratch;  // for wire bytes that are not in one piece; floats, for their alignment
    uint64_t released = 0;       // the sequence number that it may push; 0: it has been sent no parameters
    uint64_t sequence = 0;       // of the push that arrives
    Coverage arrived;
    std::optional<PushNews> whole;
  };
  std::shared_ptr<Seat> seat_of(int worker) const;
  void decode(Seat& seat, const Body& body, std::span<float> into) const;

  Shard& shard_;
  const std::string codec_;
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<Seat>> seats_;
  std::map<int, uint64_t> pushed_by_;
};

}  // namespace paceline
