#include "paceline/rendezvous/world.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <sstream>
#include <thread>

#include "paceline/comm/engine_gloo.h"
#include "paceline/comm/engine_local.h"
#include "paceline/comm/engine_mixed.h"
#include "paceline/comm/engine_mpi.h"
#include "paceline/comm/engine_shm.h"
#include "paceline/comm/flight_log.h"
#include "paceline/comm/rank_list.h"
#include "paceline/core/nearest.h"
#include "paceline/rendezvous/deadline.h"
#include "paceline/rendezvous/peer_mesh.h"
#include "paceline/rendezvous/rendezvous.h"
#include "paceline/rendezvous/socket.h"
#include "paceline/rendezvous/watchdog.h"

namespace paceline {
namespace {

const std::vector<std::string> kEngines = {"auto", "local", "shm", "gloo", "mpi", "shm+gloo", "shm+mpi"};

void require_known(const std::string& engine) {
  if (std::ranges::find(kEngines, engine) == kEngines.end())
    throw UsageError(fmt::format("there is no engine '{}'{} (known: {})", engine, did_you_mean(engine, kEngines),
                                 fmt::join(kEngines, ", ")));
}

// What was asked for by the program, else by the launcher, in terms of what there is.
std::string resolve_engine(const std::string& asked, const Identity& identity, const Topology& topology) {
  const bool under_mpi = identity.starter == Identity::Starter::mpirun;
  std::string engine = asked != "auto" || identity.engine.empty() ? asked : identity.engine;
  require_known(engine);
  if (engine == "auto") {
    const std::string network = under_mpi ? "mpi" : "gloo";
    if (topology.hosts() == 1) return "shm";
    return topology.hosts() == topology.ranks() ? network : "shm+" + network;
  }
  if (engine == "local" && identity.size > 1)
    throw UsageError("the local engine has its ranks in one process; this run has several: use shm, gloo or mpi");
  if (engine == "shm" && topology.hosts() > 1)
    throw UsageError(
        fmt::format("the shm engine serves one host; this run has {}: use shm+gloo (or auto)", topology.hosts()));
  if (engine.ends_with("mpi") && !under_mpi)
    throw UsageError(fmt::format(
        "engine {} needs MPI to start the ranks: use 'mpirun -n {} ...' or 'paceline launch --engine {} ...'", engine,
        identity.size, engine));
  return engine;
}

// What rank 0 tells the others instead of the list when some did not come.
constexpr std::string_view kFailed = "failed: ";

// Every host's identity, a line per rank; or, after the time-out, who did not come.
std::string gather_hosts(const Identity& identity, const std::string& prefix, Store& store, int64_t timeout_ms) {
  const Deadline deadline(timeout_ms);
  std::string all;
  std::vector<int> missing;
  for (int rank = 0; rank < identity.size; ++rank) {
    try {
      all += store.get(prefix + std::to_string(rank), deadline.poll_ms()) + "\n";
    } catch (const PeerError&) {
      missing.push_back(rank);
    }
  }
  if (missing.empty()) return all;
  return fmt::format(
      "{}{} did not come to the rendezvous{} within {:.1f} s; were they started, with the same PACELINE_SECRET?",
      kFailed, rank_list(missing),
      identity.store_host.empty() ? "" : fmt::format(" at {}:{}", identity.store_host, identity.store_port),
      static_cast<double>(timeout_ms) / 1000);
}

// Every rank says where it is; rank 0 puts the list together.
Topology discover_topology(const Identity& identity, Store& store, int64_t timeout_ms) {
  constexpr int64_t kLongerMs = 5'000;  // rank 0 is the one to give up, since it knows why
  const std::string prefix = fmt::format("host/{}/", identity.generation);
  store.set(prefix + std::to_string(identity.rank), host_identity());
  if (identity.rank == 0) store.set(prefix + "all", gather_hosts(identity, prefix, store, timeout_ms));
  const std::string all = store.get(prefix + "all", timeout_ms + kLongerMs);
  if (all.starts_with(kFailed)) throw PeerError(fmt::format("rank {}: {}", identity.rank, all.substr(kFailed.size())));
  std::istringstream lines(all);
  std::vector<std::string> hosts;
  for (std::string line; std::getline(lines, line);) hosts.push_back(line);
  CHECK_EQ(hosts.size(), static_cast<size_t>(identity.size));
  return Topology(hosts);
}

// Rank 0's engine is everyone's.
std::string agree_on_engine(const std::string& mine, const Identity& identity, Store& store, int64_t timeout_ms) {
  const std::string key = fmt::format("engine/{}", identity.generation);
  if (identity.rank == 0) store.set(key, mine);
  const std::string agreed = store.get(key, timeout_ms);
  if (agreed != mine)
    throw UsageError(fmt::format("rank {} was asked for engine {}, but rank 0 for {}; give all the same", identity.rank,
                                 mine, agreed));
  return agreed;
}

GroupIdentity identity_of_host_group(const GroupIdentity& world) {
  const int host = world.topology.host_of(world.rank);
  const std::vector<int>& members = world.topology.ranks_of(host);
  GroupIdentity identity = world;
  identity.engine = "shm";
  identity.name = fmt::format("world@host{}", host);
  identity.world_ranks = members;
  identity.rank = static_cast<int>(std::ranges::find(members, world.rank) - members.begin());
  identity.topology = world.topology.of(members);
  return identity;
}

std::unique_ptr<Group> make_network_group(const GroupIdentity& identity, const std::shared_ptr<Monitor>& monitor,
                                          const Rendezvous& rendezvous, const std::string& address) {
  if (identity.engine == "mpi") return make_mpi_group(identity, monitor);
  const MeshOptions options = {.rank = identity.rank,
                               .ranks = static_cast<int>(identity.world_ranks.size()),
                               .group = identity.name,
                               .generation = identity.generation,
                               .address = address,
                               .timeout_ms = monitor->timeout_ms(),
                               .refused = [](const std::string& text) { fmt::print(stderr, "paceline: {}\n", text); }};
  const std::vector<Descriptor> mesh = connect_mesh(options, *rendezvous.secret, *rendezvous.store, monitor->alarm());
  std::vector<int> sockets;
  for (const Descriptor& connection : mesh) sockets.push_back(connection.number());
  return make_gloo_group(identity, monitor, address, sockets);
}

std::unique_ptr<Group> connect_group(const GroupIdentity& identity, const std::shared_ptr<Monitor>& monitor,
                                     const Rendezvous& rendezvous, const std::string& address, const std::string& job) {
  if (identity.engine == "shm") return make_shm_group(identity, monitor, *rendezvous.store, job);
  std::unique_ptr<Group> group;
  if (const size_t plus = identity.engine.find('+'); plus != std::string::npos) {
    GroupIdentity network = identity;
    network.name = "world@network";
    network.engine = identity.engine.substr(plus + 1);
    std::unique_ptr<Group> host = make_shm_group(identity_of_host_group(identity), monitor, *rendezvous.store, job);
    group = make_mixed_group(identity, std::move(host), make_network_group(network, monitor, rendezvous, address));
  } else {
    group = make_network_group(identity, monitor, rendezvous, address);
  }
  group->barrier();  // #1 on every engine: all are here
  return group;
}

// Where the other hosts reach this one. Ranks beside rank 0, which serves the store, may have reached it over loopback,
// which means nothing to other hosts: for them the store knows the address by which others came.
std::string address_for_others(const Identity& identity, const Topology& topology, Rendezvous& rendezvous,
                               int64_t timeout_ms) {
  const std::string mine = rendezvous.store->local_address();
  if (topology.hosts() == 1 || !identity.store_is_ours) return mine;
  const std::string key = fmt::format("address/{}", identity.generation);
  if (identity.rank == 0) rendezvous.store->set(key, rendezvous.server->network_address());
  if (!is_loopback(mine) || topology.host_of(identity.rank) != topology.host_of(0)) return mine;
  const std::string told = rendezvous.store->get(key, timeout_ms);
  return told.empty() ? mine : told;
}

}  // namespace

// In the order of their making; they go in the reverse order, the watchdog's farewell first.
struct World::Parts {
  Identity identity;
  FlightFolder flight_folder;
  std::string engine;
  std::string address;  // where other ranks reach this one
  Topology topology;
  Rendezvous rendezvous;
  std::shared_ptr<Monitor> monitor;
  std::unique_ptr<Group> group;
  std::unique_ptr<Watchdog> watchdog;

  GroupIdentity group_identity(const std::string& group_engine, const std::string& name) const {
    GroupIdentity group = {.rank = identity.rank,
                           .generation = identity.generation,
                           .engine = group_engine,
                           .name = name,
                           .world_ranks = std::vector<int>(identity.size),
                           .topology = topology};
    std::iota(group.world_ranks.begin(), group.world_ranks.end(), 0);
    return group;
  }

  std::atomic<bool> failed = false;

  ~Parts() {
    watchdog.reset();
    group.reset();
    // mpirun, srun and torchrun end all ranks as soon as one exits: leave the others time to tell what they know.
    if (failed && identity.starter != Identity::Starter::paceline)
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    if (rendezvous.server) rendezvous.server->wait_until_all_left(failed || !monitor ? 2'000 : monitor->timeout_ms());
  }

  // Called once, by the thread that fails first. It must not throw: an error is on its way.
  void tell_failure(const std::string& failure) {
    failed = true;
    const std::filesystem::path file = flight_folder.path / flight_log_name(identity.rank);
    std::string record = fmt::format("the last operations are in {}; see 'paceline flight {}'", file.string(),
                                     flight_folder.path.string());
    try {
      make_flight_folder(flight_folder);
      write_flight_log(file, {.rank = identity.rank,
                              .size = identity.size,
                              .generation = identity.generation,
                              .engine = engine,
                              .host = host_name(),
                              .failure = failure,
                              .groups = monitor->recorder().groups(),
                              .records = monitor->recorder().records()});
    } catch (const std::exception& error) {
      record = fmt::format("no flight record: {} (PACELINE_FLIGHT_DIR says where they go)", error.what());
    }
    fmt::print(stderr, "paceline: {}\npaceline: {}\n", failure, record);
  }
};

World World::connect(const WorldOptions& options) {
  const Environment environment = process_environment();
  auto parts = std::make_unique<Parts>();
  parts->identity = find_identity(environment);
  const Identity& identity = parts->identity;
  require_known(options.engine);
  if (identity.size == 1 && identity.starter == Identity::Starter::alone) {
    parts->group = make_local_group();
    return World(std::move(parts));
  }
  const int64_t timeout_ms = wait_timeout_ms(options.timeout_ms, environment);
  parts->flight_folder = flight_folder(options.flight_folder, environment, identity.job);
  parts->rendezvous = find_other_ranks(identity, environment, timeout_ms);
  StoreClient& store = *parts->rendezvous.store;
  parts->topology = discover_topology(identity, store, timeout_ms);
  parts->address = address_for_others(identity, parts->topology, parts->rendezvous, timeout_ms);
  parts->engine =
      agree_on_engine(resolve_engine(options.engine, identity, parts->topology), identity, store, timeout_ms);
  parts->monitor = std::make_shared<Monitor>(timeout_ms);
  parts->monitor->on_failure([raw = parts.get()](const std::string& text) { raw->tell_failure(text); });
  parts->watchdog = std::make_unique<Watchdog>(
      std::move(parts->rendezvous.watching), parts->monitor,
      Watchdog::Options{.server = identity.starter == Identity::Starter::paceline ? "the launcher" : "rank 0",
                        .give_up = [raw = parts.get()](const std::string& text) {
                          raw->monitor->report_failure(text);
                          ::_exit(static_cast<int>(ExitCode::peer));
                        }});

  parts->group = connect_group(parts->group_identity(parts->engine, "world"), parts->monitor, parts->rendezvous,
                               parts->address, identity.job);
  return World(std::move(parts));
}

World::World(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
World::World(World&&) noexcept = default;
World::~World() = default;

Group& World::group() { return *parts_->group; }
const Identity& World::identity() const { return parts_->identity; }

std::unique_ptr<Group> World::make_group(const std::string& engine, const std::string& name) {
  CHECK_TRUE(engine == "gloo" || engine == "mpi", "a second group over {}", engine);
  if (!parts_->rendezvous.store)
    throw UsageError(fmt::format("a single rank that nobody started has no {} engine: use 'paceline launch'", engine));
  return connect_group(parts_->group_identity(resolve_engine(engine, parts_->identity, parts_->topology), name),
                       parts_->monitor, parts_->rendezvous, parts_->address, parts_->identity.job);
}

}  // namespace paceline
