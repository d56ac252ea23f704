#include "paceline/ps/server_call.h"

#include <fmt/format.h>

#include "paceline/ps/certificates.h"
#include "paceline/ps/shard_service.h"

namespace paceline {

std::string why_not_welcome(const HelloHead& hello, const ServerIdentity& server, uint64_t version) {
  const int shard = server.shard, shards = server.shards;
  if (hello.protocol != kServerProtocol) {
    return fmt::format("the server speaks protocol {}, not {}; use the same Paceline everywhere", kServerProtocol,
                       hello.protocol);
  }
  if (hello.run != server.run) {
    return fmt::format("this is the run '{}', not '{}'; look at the addresses of the servers", server.run, hello.run);
  }
  if (const std::string keys = settings_difference(server.mark.settings, hello.settings); !keys.empty()) {
    if (is_of_the_data(keys))
      return fmt::format("the training data differ: {}; give servers and workers the same files (data.root may differ)",
                         keys);
    return fmt::format("the recipe differs: {}; use the same recipe, with the same --set, everywhere", keys);
  }
  if (hello.history != 0 && hello.history != server.mark.history) {
    return fmt::format(
        "server {} has lost the state that this process worked with, and has begun anew (it is at update "
        "{} now); stop all processes of the run, start the servers with 'paceline serve --checkpoint "
        "DIR', from the newest folder below the run's checkpoints/, and 'paceline train' with --resume",
        shard, server.mark.first_update + version);
  }
  if (hello.fingerprint != server.fingerprint) {
    return fmt::format("the model or its shards are others here ({} of {} shards); use the same recipe everywhere",
                       shard, shards);
  }
  if (hello.role == PeerRole::worker && (hello.id < 0 || hello.id >= Coordinator::kFirstObserver)) {
    return fmt::format("there can be no worker {}", hello.id);
  }
  if (hello.role == PeerRole::observer && (hello.id < 0 || hello.id >= kMostObservers)) {
    return fmt::format("there can be no observer {}; they count from 0 to {}", hello.id, kMostObservers - 1);
  }
  if (hello.role == PeerRole::shard && (shard != 0 || hello.id <= 0 || hello.id >= shards)) {
    return fmt::format("shard {} calls shard {} of {}; shards 1 and up call shard 0", hello.id, shard, shards);
  }
  return "";
}

std::string why_not_certified(const HelloHead& hello, CertifiedAs certified, const TransportSecurity& security) {
  const bool shard = hello.role == PeerRole::shard;
  switch (certified) {
    case CertifiedAs::none:
      if (!shard || security.authority_pem.empty()) return "";
      return "a shard has to show a server's certificate, also where workers need only the token";
    case CertifiedAs::nothing:
      return fmt::format(
          "this certificate says neither that it is a server's nor a client's, as those of an older Paceline; make new "
          "ones with 'paceline certs', or name {} or {} among its alternative names",
          kServerRoleUri, kClientRoleUri);
    case CertifiedAs::server:
      return shard ? "" : "a server's certificate is no worker's; use the client's";
    case CertifiedAs::client:
      return shard ? "a client's certificate does not make a shard; give servers the server's" : "";
  }
  return "";
}

std::unique_ptr<ClientConnection> call_server(const std::string& address, int shard, int shards,
                                              const TransportSecurity& security, const TransportLimits& limits,
                                              const HelloHead& hello, uint64_t& history) {
  auto connection = connect(address, security, limits);
  Message answer;
  try {
    connection->send({to_wire(Head(hello)), {}});
    answer = connection->receive(kWelcomeTimeoutMs);
  } catch (const PeerError& failure) {
    if (std::string(failure.what()).find(kRefusal) != std::string::npos) throw RefusedError(failure.what());
    throw;
  }
  const Head head = head_from(answer.head);
  const auto* welcome = std::get_if<WelcomeHead>(&head);
  if (welcome == nullptr) throw PeerError(fmt::format("{} did not say which server it is", address));
  if (welcome->shard != shard || welcome->shards != shards) {
    throw RefusedError(fmt::format("{} is shard {} of {}, not {} of {}: give all servers, shard 0 first", address,
                                   welcome->shard, welcome->shards, shard, shards));
  }
  history = welcome->history;
  return connection;
}

}  // namespace paceline
