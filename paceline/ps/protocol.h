// What is said between workers, observers, shards and the coordinator: the heads of messages (ps/transport.h).
//
//   worker -> shard        hello, push (segments of a gradient, or of parameters for an exchange), statistics
//   worker -> coordinator  (shard 0) join, heartbeat, leave
//   coordinator -> worker  go
//   shard -> worker        welcome, parameters (segments, after each release)
//   shard -> coordinator   hello, staged, report, norms, missing
//   coordinator -> shard   command, whole_norms, forget
//   observer -> coordinator  observe, leave; all shards answer with snapshot segments, shard 0 with news
//
// Little-endian, of fixed layout after a byte for the kind; what is too short, too long or out of range is refused
// (PeerError) before anything is done with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "paceline/kernels/lars.h"
#include "paceline/ps/coordinator.h"
#include "paceline/ps/transport.h"

namespace paceline {

enum class PeerRole : uint8_t { worker, observer, shard };
constexpr PeerRole last_of(PeerRole) { return PeerRole::shard; }

inline constexpr uint32_t kServerProtocol = 2;

struct HelloHead {
  PeerRole role = PeerRole::worker;
  uint32_t protocol = kServerProtocol;
  int32_t id = 0;  // worker, observer, or shard
  uint64_t incarnation = 0;
  uint64_t executed = 0;    // of a shard that calls its coordinator
  std::string fingerprint;  // of the model and its shards (ShardMap)
  std::string run;          // which run: two of one model do not mix
  uint64_t history = 0;     // of the state that the caller has worked with on this server (RunMark); 0: none yet
  std::string settings;     // what the run means to the caller (RunMark)
};
struct WelcomeHead {
  int32_t shard = 0, shards = 0;
  uint64_t version = 0;
  uint64_t history = 0;  // of the server's state
};
struct JoinHead {};
struct HeartbeatHead {};
struct LeaveHead {};
struct PushHead {
  PushNews push;
  uint64_t offset = 0, count = 0;  // elements of the shard that the body has
  bool last = false;               // of this push, on this shard
};
struct StatisticsHead {};  // the body: the worker's batch statistics, f32, whole
struct GoHead {
  bool over = false;
  Assignment assignment;
  uint64_t index = 0;  // of the release command whose parameters belong to it
};
struct ParametersHead {
  uint64_t version = 0;
  uint64_t index = 0;  // of the release command: segments of an older one are left aside
  uint64_t offset = 0, count = 0;
  bool last = false;
};
struct CommandHead {
  Command command;
};
struct StagedHead {
  int32_t worker = 0;
  PushNews push;
};
struct ReportHead {
  ShardReport report;
  ShardLoad load;
};
struct NormsHead {
  uint64_t index = 0;
  std::vector<SquaredNorms> norms;  // of all tensors; on the wire they are the body
};
struct WholeNormsHead {  // the body: the norms
  uint64_t index = 0;
};
struct ForgetHead {
  int32_t worker = 0;
};
struct ObserveHead {
  bool weights = false;  // neither: only news
  bool states = false;   // weights and the optimizer's: for a checkpoint
};
struct SnapshotHead {
  uint64_t version = 0;
  uint64_t index = 0;
  uint64_t steps = 0;  // of the optimizer, also before the run went on from a checkpoint
  double rate = 0;     // of the last step
  std::string state;   // "weights", or a name of Shard::states()
  uint64_t offset = 0, count = 0;
  bool last = false;  // of this shard's answer
};
struct NewsHead {      // the body, of a look at the states: SampleLeases::save()
  uint64_t index = 0;  // of the release command
  uint64_t used_samples = 0;
  uint64_t steps = 0;         // versions
  uint64_t first_update = 0;  // updates that the run had before version 0, in the checkpoint that it goes on from
  bool over = false;
  std::string metrics;  // JSON: counts, staleness, gap, per worker; ps/server.cc says what
};

struct MissingHead {  // a command was about a push that the shard does not have; it went on without
  int32_t worker = 0;
  uint64_t sequence = 0;
};

using Head = std::variant<HelloHead, WelcomeHead, JoinHead, HeartbeatHead, LeaveHead, PushHead, StatisticsHead, GoHead,
                          ParametersHead, CommandHead, StagedHead, ReportHead, NormsHead, WholeNormsHead, ForgetHead,
                          ObserveHead, SnapshotHead, NewsHead, MissingHead>;

inline constexpr size_t kMostNorms = 500'000;  // tensors of a model; a body takes them
Body body_of(std::vector<SquaredNorms> norms);
std::vector<SquaredNorms> norms_from(const Body& body);  // throws PeerError

std::string to_wire(const Head& head);
Head head_from(std::string_view wire);  // throws PeerError

}  // namespace paceline
