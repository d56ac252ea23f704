#include "paceline/rendezvous/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "paceline/core/error.h"

namespace paceline {
namespace {

// The launcher's variables; what it says in errors.
class Variables {
 public:
  // `sign` is the variable by which the launcher was recognised.
  Variables(const Environment& environment, std::string sign) : environment_(environment), sign_(std::move(sign)) {}

  std::optional<std::string> find(const std::string& name) const {
    auto text = environment_(name);
    return text && !text->empty() ? text : std::nullopt;
  }

  std::string text(const std::string& name) const {
    if (auto found = find(name)) return *found;
    throw UsageError(
        fmt::format("{} is not set, though {} is: whoever starts the ranks must set both (unset {} to run alone)", name,
                    sign_, sign_));
  }

  template <class Number>
  Number number(const std::string& name, Number least, Number most) const {
    const std::string value = text(name);
    Number parsed = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (failure != std::errc() || end != value.data() + value.size() || parsed < least || parsed > most)
      throw UsageError(fmt::format("{} is \"{}\": it must be a whole number from {} to {}", name, value, least, most));
    return parsed;
  }
  template <class Number>
  Number number_or(const std::string& name, Number otherwise, Number least, Number most) const {
    return find(name) ? number(name, least, most) : otherwise;
  }

  void read_ranks(Identity& identity, const std::string& rank, const std::string& size) const {
    identity.size = number(size, 1, kMostRanks);
    identity.rank = number(rank, 0, identity.size - 1);
  }
  // Where nobody says how many ranks this host has, it has at least those up to this one.
  void read_local_ranks(Identity& identity, const std::string& rank, const std::string& size) const {
    identity.local_rank = number_or(rank, 0, 0, identity.size - 1);
    identity.local_size = number_or(size, identity.local_rank + 1, identity.local_rank + 1, identity.size);
  }

 private:
  static constexpr int kMostRanks = 1'000'000;
  const Environment& environment_;
  std::string sign_;
};

constexpr uint16_t kLastPort = std::numeric_limits<uint16_t>::max();

// The job names files: everything but letters, digits, '.', '_' and '-' becomes '-'.
std::string file_name(std::string text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  for (char& letter : text) letter = kAllowed.find(letter) == std::string_view::npos ? '-' : letter;
  return text;
}

// "host:port", "[::1]:port"
void read_store_address(Identity& identity, const std::string& address) {
  const auto fail = [&] {
    throw UsageError(fmt::format("PACELINE_STORE is \"{}\": it must be HOST:PORT or [ADDRESS]:PORT", address));
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) fail();
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find_first_of(":[]") != std::string::npos)
    fail();
  const char* const end = address.data() + address.size();
  const auto [parsed_to, failure] = std::from_chars(address.data() + colon + 1, end, identity.store_port);
  if (host.empty() || failure != std::errc() || parsed_to != end || identity.store_port == 0) fail();
  identity.store_host = host;
}

Identity from_launch(const Variables& variables) {
  Identity identity{.starter = Identity::Starter::paceline, .store_is_ours = false};
  variables.read_ranks(identity, "PACELINE_RANK", "PACELINE_SIZE");
  variables.read_local_ranks(identity, "PACELINE_LOCAL_RANK", "PACELINE_LOCAL_SIZE");
  read_store_address(identity, variables.text("PACELINE_STORE"));
  identity.job = file_name(variables.text("PACELINE_JOB"));
  return identity;
}

Identity from_mpirun(const Variables& variables) {
  Identity identity{.starter = Identity::Starter::mpirun};
  variables.read_ranks(identity, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  variables.read_local_ranks(identity, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  const auto job = variables.find("OMPI_MCA_ess_base_jobid");
  identity.job = file_name("mpi-" + (job ? *job : variables.text("PMIX_NAMESPACE")));
  return identity;
}

Identity from_torchrun(const Variables& variables) {
  Identity identity{.starter = Identity::Starter::torchrun};
  variables.read_ranks(identity, "RANK", "WORLD_SIZE");
  variables.read_local_ranks(identity, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  identity.store_host = variables.text("MASTER_ADDR");
  const auto master_port = variables.number<uint16_t>("MASTER_PORT", 1, kLastPort);
  const bool taken = variables.find("TORCHELASTIC_USE_AGENT_STORE") == "True";  // torchrun itself listens there
  if (taken && master_port == kLastPort && !variables.find("PACELINE_PORT"))
    throw UsageError(
        "MASTER_PORT is \"65535\", where torchrun itself listens, and there is no port after it; choose one with "
        "PACELINE_PORT");
  const auto port = static_cast<uint16_t>(master_port + (taken ? 1 : 0));
  identity.store_port = variables.number_or<uint16_t>("PACELINE_PORT", port, 1, kLastPort);
  // torchrun names every run "none" that was not given a name.
  identity.job =
      file_name(fmt::format("torch-{}-{}", variables.find("TORCHELASTIC_RUN_ID").value_or("run"), master_port));
  return identity;
}

// "4(x2),3": tasks of each node, in order. Nothing when it makes no sense.
std::optional<int> tasks_of_node(std::string_view list, int node) {
  while (!list.empty()) {
    int tasks = 0;
    int nodes = 1;
    const char* next = std::from_chars(list.data(), list.data() + list.size(), tasks).ptr;
    list.remove_prefix(static_cast<size_t>(next - list.data()));
    if (list.starts_with("(x")) {
      next = std::from_chars(list.data() + 2, list.data() + list.size(), nodes).ptr;
      list.remove_prefix(static_cast<size_t>(next - list.data()));
      if (!list.starts_with(")")) return {};
      list.remove_prefix(1);
    }
    if (tasks < 1 || nodes < 1 || (!list.empty() && list.front() != ',')) return {};
    if (node < nodes) return tasks;
    node -= nodes;
    list.remove_prefix(list.empty() ? 0 : 1);
  }
  return {};
}

// SLURM's variables are also set in a batch script, which is one process and not a step of srun.
bool is_slurm_step(const Environment& environment) {
  constexpr uint64_t kFirstSpecialStep = 0xfffffff0;  // the batch script's, an interactive shell's
  const Variables variables(environment, "SLURM_PROCID");
  if (!variables.find("SLURM_PROCID") || !variables.find("SLURM_NTASKS") || !variables.find("SLURM_STEP_ID"))
    return false;
  return variables.number<uint64_t>("SLURM_STEP_ID", 0, std::numeric_limits<uint64_t>::max()) < kFirstSpecialStep &&
         variables.text("SLURM_NTASKS") != "1";
}

Identity from_srun(const Variables& variables) {
  Identity identity{.starter = Identity::Starter::slurm};
  variables.read_ranks(identity, "SLURM_PROCID", "SLURM_NTASKS");
  identity.local_rank = variables.number_or("SLURM_LOCALID", 0, 0, identity.size - 1);
  const int node = variables.number_or("SLURM_NODEID", 0, 0, identity.size - 1);
  const auto tasks = tasks_of_node(variables.find("SLURM_STEP_TASKS_PER_NODE").value_or(""), node);
  identity.local_size = std::max(tasks.value_or(1), identity.local_rank + 1);
  const auto nodes = variables.find("SLURM_STEP_NODELIST");
  identity.store_host = first_slurm_host(nodes ? *nodes : variables.text("SLURM_JOB_NODELIST"));
  constexpr uint64_t kMostId = std::numeric_limits<uint32_t>::max();
  const auto job = variables.number<uint64_t>("SLURM_JOB_ID", 0, kMostId);
  const auto step = variables.number<uint64_t>("SLURM_STEP_ID", 0, kMostId);
  const auto port = static_cast<uint16_t>(20000 + (job * 101 + step) % 40000);
  identity.store_port = variables.number_or<uint16_t>("PACELINE_PORT", port, 1, kLastPort);
  identity.job = fmt::format("slurm-{}.{}", job, step);
  return identity;
}

Identity from_starter(const Environment& environment) {
  const auto set = [&](const char* name) { return !environment(name).value_or("").empty(); };
  if (set("PACELINE_RANK")) return from_launch({environment, "PACELINE_RANK"});
  if (set("OMPI_COMM_WORLD_RANK")) return from_mpirun({environment, "OMPI_COMM_WORLD_RANK"});
  if (set("RANK")) return from_torchrun({environment, "RANK"});
  if (is_slurm_step(environment)) return from_srun({environment, "SLURM_PROCID"});
  return {};
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Identity find_identity(const Environment& environment) {
  Identity identity = from_starter(environment);
  if (identity.starter == Identity::Starter::alone) return identity;
  const Variables variables(environment, "");
  identity.generation =
      variables.number_or<uint64_t>("PACELINE_GENERATION", 0, 0, std::numeric_limits<uint64_t>::max());
  identity.engine = variables.find("PACELINE_ENGINE").value_or("");
  return identity;
}

std::string first_slurm_host(const std::string& node_list) {
  std::string host;
  for (size_t at = 0; at < node_list.size() && node_list[at] != ','; ++at) {
    if (node_list[at] != '[') {
      host += node_list[at];
      continue;
    }
    const size_t number_end = node_list.find_first_of(",-]", at);
    const size_t bracket_end = node_list.find(']', at);
    if (bracket_end == std::string::npos || number_end == at + 1)
      throw UsageError(fmt::format("SLURM's node list is \"{}\": that is no list of hosts", node_list));
    host += node_list.substr(at + 1, number_end - at - 1);
    at = bracket_end;
  }
  if (host.empty()) throw UsageError(fmt::format("SLURM's node list is \"{}\": it names no host", node_list));
  return host;
}

}  // namespace paceline
