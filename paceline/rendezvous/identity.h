// Identity: which rank this process is, as whoever started it says in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace paceline {

struct Identity {
  enum class Starter : uint8_t { alone, paceline, mpirun, slurm, torchrun };
  Starter starter = Starter::alone;  // alone: one rank, nobody to find
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  uint64_t generation = 0;
  std::string job;  // names the run on its hosts: shared-memory segments, flight records
  // Where the ranks meet; empty under mpirun, where rank 0 tells the others through MPI.
  std::string store_host;
  uint16_t store_port = 0;
  bool store_is_ours = true;  // rank 0 serves the store (false: the launcher does)
  std::string engine;         // what the launcher was asked for; empty: not said
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Looks, in this order, for `paceline launch` (PACELINE_RANK ...), mpirun (OMPI_COMM_WORLD_RANK ...), torchrun (RANK,
// WORLD_SIZE, MASTER_ADDR, MASTER_PORT), srun (SLURM_PROCID, SLURM_NTASKS > 1 ...). Throws UsageError that names the
// variable when one is missing or makes no sense.
Identity find_identity(const Environment& environment);

// The first host of SLURM's list: "node[03-07,9],login" -> "node03".
std::string first_slurm_host(const std::string& node_list);

}  // namespace paceline
