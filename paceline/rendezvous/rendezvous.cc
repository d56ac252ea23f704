#include "paceline/rendezvous/rendezvous.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "paceline/comm/topology.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

// Drawn by whichever rank of the user comes first: a link is made whole or not at all.
Secret user_secret(const Environment& environment) {
  const std::optional<std::string> home = environment("HOME");
  if (!home || home->empty())
    throw UsageError(
        "the ranks of this run need a shared secret, and there is no HOME to keep one in: set PACELINE_SECRET to the "
        "same "
        "value on all ranks (PACELINE_SECRET=$(openssl rand -hex 32))");
  const std::filesystem::path folder = std::filesystem::path(*home) / ".config" / "paceline";
  const std::filesystem::path file = folder / "secret";
  if (!std::filesystem::exists(file)) {
    make_directories(folder);
    const std::string mine = (folder / fmt::format(".secret-{}-{}", host_name(), ::getpid())).string();
    const int descriptor = ::open(mine.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const std::string text = Secret::random().reveal() + "\n";
    const bool written =
        descriptor >= 0 && ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (descriptor >= 0) ::close(descriptor);
    const bool linked = written && (::link(mine.c_str(), file.c_str()) == 0 || errno == EEXIST);
    ::unlink(mine.c_str());
    if (!linked)
      throw FileError(
          fmt::format("cannot write {}; set PACELINE_SECRET to the same value on all ranks instead", file.string()));
  }
  const std::string text = read_file(file);
  return Secret(text.substr(0, text.find_first_of("\r\n")));
}

Secret secret_for(const Identity& identity, const Environment& environment) {
  if (std::optional<Secret> secret = Secret::from_environment(environment)) return *secret;
  if (identity.starter == Identity::Starter::paceline)
    throw UsageError("PACELINE_RANK is set but PACELINE_SECRET is not: start this program through 'paceline launch'");
  return user_secret(environment);
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
    const bool one_host = identity.local_size == identity.size;
    const std::string address = environment("PACELINE_ADDRESS").value_or(one_host ? "127.0.0.1" : host_name());
    const Secret secret = Secret::random();
    rendezvous.server = std::make_unique<StoreServer>(
        StoreServer::Options{.address = address, .ranks = identity.size, .generation = identity.generation}, secret);
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
    rendezvous.server = std::make_unique<StoreServer>(
        StoreServer::Options{
            .address = place.host, .port = place.port, .ranks = identity.size, .generation = identity.generation},
        place.secret);
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
  rendezvous.store = std::make_unique<StoreClient>(options, place.secret);
  options.watching = true;
  rendezvous.watching = std::make_unique<StoreClient>(options, place.secret);
  return rendezvous;
}

}  // namespace paceline
