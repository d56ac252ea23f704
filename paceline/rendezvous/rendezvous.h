// Rendezvous: how the ranks of a run find each other, whoever started them.
#pragma once

#include <memory>
#include <optional>

#include "paceline/comm/engine_mpi.h"
#include "paceline/rendezvous/identity.h"
#include "paceline/rendezvous/store_client.h"
#include "paceline/rendezvous/store_server.h"

namespace paceline {

// Members go in the reverse of this order.
struct Rendezvous {
  std::unique_ptr<MpiLibrary> mpi;      // under mpirun
  std::unique_ptr<StoreServer> server;  // on rank 0, unless the launcher serves
  std::optional<Secret> secret;         // what the store and the ranks prove to each other to know
  std::unique_ptr<StoreClient> store;
  std::unique_ptr<StoreClient> watching;  // for the watchdog
};

// Secrets: the launcher's; under mpirun one that rank 0 draws and MPI carries; else PACELINE_SECRET,
// PACELINE_SECRET_FILE, or the user's own in ~/.config/paceline/secret, which is made when it is missing and serves all
// hosts where the home folder is shared. Throws PeerError when nobody comes or the secret is wrong.
Rendezvous find_other_ranks(const Identity& identity, const Environment& environment, int64_t timeout_ms);

}  // namespace paceline
