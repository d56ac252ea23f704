#include "paceline/rendezvous/rendezvous.h"

#include <sstream>

#include "paceline/comm/topology.h"
#include "paceline/core/error.h"
#include "paceline/rendezvous/user_secret.h"

namespace paceline {
namespace {

Secret secret_for(const Identity& identity, const Environment& environment) {
  if (std::optional<Secret> secret = Secret::from_environment(environment)) return *secret;
  if (identity.starter == Identity::Starter::paceline)
    throw UsageError("PACELINE_RANK is set but PACELINE_SECRET is not: start this program through 'paceline launch'");
  return user_secret(environment);
}

bool is_one_host(const Identity& identity) { return identity.local_size == identity.size; }

// `address` is what the other ranks know this host by. On this very host the name may mean a loopback address (Debian:
// 127.0.1.1), which no other host reaches. So the store listens at every address where other hosts take part.
StoreServer::Options store_options(const Identity& identity, const std::string& address) {
  return {.address = is_one_host(identity) ? address : "",
          .port = identity.store_port,
          .ranks = identity.size,
          .generation = identity.generation};
}

// Under mpirun, rank 0 opens the store anywhere and MPI tells the others where, with a secret of its own.
struct MeetingPoint {
  std::string host;
  uint16_t port = 0;
  Secret secret;
};

MeetingPoint meet_through_mpi(const Identity& identity, const Environment& environment, Rendezvous& rendezvous) {
  rendezvous.mpi = std::make_unique<MpiLibrary>();
  std::string told;
  if (identity.rank == 0) {
    const std::string address =
        environment("PACELINE_ADDRESS").value_or(is_one_host(identity) ? "127.0.0.1" : host_name());
    const Secret secret = Secret::random();
    rendezvous.server = std::make_unique<StoreServer>(store_options(identity, address), secret);
    told = fmt::format("{} {} {}", address, rendezvous.server->port(), secret.reveal());
  }
  std::istringstream words(rendezvous.mpi->broadcast_text(told));
  std::string host, secret;
  int port = 0;
  words >> host >> port >> secret;
  return {host, static_cast<uint16_t>(port), Secret(secret)};
}

MeetingPoint meet_at_known_place(const Identity& identity, const Environment& environment, Rendezvous& rendezvous) {
  MeetingPoint place = {identity.store_host, identity.store_port, secret_for(identity, environment)};
  if (identity.rank == 0 && identity.store_is_ours)
    rendezvous.server = std::make_unique<StoreServer>(store_options(identity, place.host), place.secret);
  return place;
}

}  // namespace

Rendezvous find_other_ranks(const Identity& identity, const Environment& environment, int64_t timeout_ms) {
  Rendezvous rendezvous;
  const MeetingPoint place = identity.starter == Identity::Starter::mpirun
                                 ? meet_through_mpi(identity, environment, rendezvous)
                                 : meet_at_known_place(identity, environment, rendezvous);
  StoreClient::Options options = {.host = place.host,
                                  .port = place.port,
                                  .rank = identity.rank,
                                  .generation = identity.generation,
                                  .timeout_ms = timeout_ms};
  rendezvous.secret = place.secret;
  rendezvous.store = std::make_unique<StoreClient>(options, place.secret);
  options.watching = true;
  rendezvous.watching = std::make_unique<StoreClient>(options, place.secret);
  return rendezvous;
}

}  // namespace paceline
