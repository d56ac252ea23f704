// World: from a process's identity to its group. Owns what the group needs: the store, the watchdog, the engine.
//
//   World world = World::connect({});
//   world.group().barrier();
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "paceline/comm/group.h"
#include "paceline/rendezvous/identity.h"
#include "paceline/rendezvous/world_settings.h"

namespace paceline {

struct WorldOptions {
  // auto: one rank: local; one host: shm; several: ranks of a host over shm, hosts over mpi under mpirun, else gloo.
  // shm, gloo, mpi: that one alone. shm+gloo, shm+mpi: mixed.
  std::string engine = "auto";
  int64_t timeout_ms = 0;               // of every wait; 0: PACELINE_TIMEOUT (seconds), else 60 s
  std::filesystem::path flight_folder;  // for flight records of failures; PACELINE_FLIGHT_DIR; else a private one
};

class World {
 public:
  static World connect(const WorldOptions& options);
  World(World&&) noexcept;
  ~World();

  Group& group();
  const Identity& identity() const;

  // Another group of all ranks, over gloo or mpi (mpi: under mpirun). Every rank calls it, with the same arguments; no
  // two groups have the same name. It must go before the world does.
  std::unique_ptr<Group> make_group(const std::string& engine, const std::string& name);

 private:
  struct Parts;
  explicit World(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace paceline
