// ParameterServer: one server process: its shard, and on shard 0 the coordinator.
//
//   ParameterServer server(options, initial);   // listens; calls the coordinator, again and again until it is there
//   server.wait(stop);                          // until the run is over for everybody
//
// Threads: the transport's stage gradients as they arrive; one carries out commands and sends parameters; on shard 0
// one thinks for the coordinator. A small shard without company does all of it on the transport's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/core/log.h"
#include "paceline/ps/coordinator.h"
#include "paceline/ps/server_update.h"
#include "paceline/ps/shard_map.h"
#include "paceline/ps/transport.h"

namespace paceline {

// What a checkpoint has of one shard.
struct ServerRestart {
  std::map<std::string, std::vector<float>> states;  // of the optimizer, by their names; the shard's part
  uint64_t steps = 0;
  double rate = 0;
  uint64_t updates = 0;  // that the run had made
};

struct ServerOptions {
  std::string listen = "127.0.0.1:0";
  int shard = 0;
  ShardMap map{{}, 1};
  ServerUpdate update;
  CoordinatorOptions coordinator;   // of shard 0
  std::string coordinator_address;  // of the others: where shard 0 listens
  TransportSecurity security;
  TransportLimits limits;
  std::string run;                     // a name that all processes of the run have
  std::string settings;                // what the run means, to be the same for all of them (RunMark)
  std::string codec = "none";          // of gradients: none, fp16, bf16, int8 ... (codecs/)
  std::filesystem::path state_folder;  // for the shard's file and the journal; on /dev/shm, see shard.h
  std::optional<ServerRestart>
      restart;  // where the run goes on; not used where the state folder has the run's state already
  uint64_t segment_elements = 1 << 18;  // of parameters on the wire
  uint64_t events_of_journal = 10'000;  // then a snapshot takes their place
  Log* log = nullptr;
};

// What a server of this shard keeps in its state folder; the folder, too, where nothing else is left in it.
bool has_state(const std::filesystem::path& state_folder, int shard);
void remove_state(const std::filesystem::path& state_folder, int shard);
// The same, for a state that some earlier server has left. Throws FileError where a server is working with it.
void remove_left_state(const std::filesystem::path& state_folder, int shard);

class ParameterServer {
 public:
  // `initial`: this shard's first weights; not used where the state folder has the run's state already.
  ParameterServer(ServerOptions options, std::span<const float> initial);
  ~ParameterServer();

  std::string address() const;
  void wait(std::stop_token stop);  // throws what a thread of ours failed with
  std::string metrics() const;      // JSON

 private:
  class Running;
  std::unique_ptr<Running> running_;
};

}  // namespace paceline
