// LaunchPlan: which ranks run on which hosts, and what each is told. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

struct PlannedHost {
  std::string name;
  bool here = true;  // ranks are started directly, not through ssh
  int first_rank = 0;
  int ranks = 1;
};

// `hosts`: "a:4,b:4" in the order of ranks, ":n" missing: 1; "[::1]:4" for addresses with colons. Empty: `ranks` here.
// `ranks`: 0: as the hosts say. Throws UsageError that names what makes no sense.
std::vector<PlannedHost> plan_hosts(int ranks, const std::string& hosts, const std::string& this_host);

int rank_count(const std::vector<PlannedHost>& hosts);
const PlannedHost& host_of(const std::vector<PlannedHost>& hosts, int rank);

// What all ranks are told alike.
struct RunSettings {
  std::string job;
  uint64_t generation = 0;  // how often all ranks were started before
  std::string secret;       // empty: mpirun's ranks agree on one themselves
  std::string engine;       // empty: not said
  double timeout_s = 0;     // 0: not said
};
std::vector<std::string> common_environment(const RunSettings& settings);
// What `rank` on `host` is told beside that: which it is, and where the store is.
std::vector<std::string> rank_environment(const PlannedHost& host, int rank, int size, const std::string& store_address,
                                          uint16_t store_port);

}  // namespace paceline
