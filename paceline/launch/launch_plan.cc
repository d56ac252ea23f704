#include "paceline/launch/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr int kMostRanks = 1'000'000;

UsageError wrong_hosts(const std::string& entry, const std::string& why) {
  return UsageError(fmt::format("--hosts: '{}' {} (expected HOST:RANKS, as in a:4,b:4)", entry, why));
}

int parse_ranks(const std::string& entry, std::string_view text) {
  int ranks = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (failure != std::errc() || end != text.data() + text.size() || ranks < 1 || ranks > kMostRanks)
    throw wrong_hosts(entry, "has no sensible number of ranks");
  return ranks;
}

PlannedHost parse_host(const std::string& entry) {
  const bool bracketed = entry.starts_with('[') && entry.find(']') != std::string::npos;
  const size_t name_begin = bracketed ? 1 : 0;
  const size_t name_end = bracketed ? entry.find(']') : std::min(entry.find(':'), entry.size());
  PlannedHost host = {.name = entry.substr(name_begin, name_end - name_begin)};
  if (host.name.empty()) throw wrong_hosts(entry, "names no host");
  if (host.name.starts_with('-')) throw wrong_hosts(entry, "looks like an option");
  const std::string rest = entry.substr(name_end + (bracketed ? 1 : 0));
  if (!rest.empty() && !rest.starts_with(':')) throw wrong_hosts(entry, "makes no sense");
  if (!rest.empty()) host.ranks = parse_ranks(entry, std::string_view(rest).substr(1));
  return host;
}

// "node1" and "node1.cluster.org" are the same when one of them says no domain.
bool is_this_host(const std::string& name, const std::string& this_host) {
  if (name == "localhost" || name == "127.0.0.1" || name == "::1" || name == this_host) return true;
  return this_host.starts_with(name + ".") || name.starts_with(this_host + ".");
}

std::string bracketed_if_needed(const std::string& address) {
  return address.find(':') != std::string::npos ? fmt::format("[{}]", address) : address;
}

}  // namespace

std::vector<PlannedHost> plan_hosts(int ranks, const std::string& hosts, const std::string& this_host) {
  if (hosts.empty()) {
    if (ranks < 1 || ranks > kMostRanks) throw UsageError("say how many ranks to start: -n N, with N at least 1");
    return {{.name = this_host, .ranks = ranks}};
  }
  std::vector<PlannedHost> planned;
  std::istringstream stream(hosts);
  for (std::string entry; std::getline(stream, entry, ',');) {
    PlannedHost host = parse_host(entry);
    host.here = is_this_host(host.name, this_host);
    host.first_rank = rank_count(planned);
    const bool twice = std::ranges::any_of(
        planned, [&](const PlannedHost& other) { return other.name == host.name || (other.here && host.here); });
    if (twice) throw wrong_hosts(entry, "names a host a second time; give it all its ranks at once");
    planned.push_back(host);
  }
  if (ranks != 0 && ranks != rank_count(planned))
    throw UsageError(fmt::format("-n says {} ranks, but --hosts {} makes {}: leave one of them out", ranks, hosts,
                                 rank_count(planned)));
  return planned;
}

int rank_count(const std::vector<PlannedHost>& hosts) {
  return hosts.empty() ? 0 : hosts.back().first_rank + hosts.back().ranks;
}

const PlannedHost& host_of(const std::vector<PlannedHost>& hosts, int rank) {
  CHECK_LT(rank, rank_count(hosts));
  return *std::ranges::find_if(hosts, [&](const auto& host) { return rank < host.first_rank + host.ranks; });
}

std::vector<std::string> common_environment(const RunSettings& settings) {
  std::vector<std::string> environment = {"PACELINE_JOB=" + settings.job,
                                          fmt::format("PACELINE_GENERATION={}", settings.generation)};
  if (!settings.secret.empty()) environment.push_back("PACELINE_SECRET=" + settings.secret);
  if (!settings.engine.empty()) environment.push_back("PACELINE_ENGINE=" + settings.engine);
  if (settings.timeout_s > 0) environment.push_back(fmt::format("PACELINE_TIMEOUT={}", settings.timeout_s));
  return environment;
}

std::vector<std::string> rank_environment(const PlannedHost& host, int rank, int size, const std::string& store_address,
                                          uint16_t store_port) {
  return {fmt::format("PACELINE_RANK={}", rank), fmt::format("PACELINE_SIZE={}", size),
          fmt::format("PACELINE_LOCAL_RANK={}", rank - host.first_rank),
          fmt::format("PACELINE_LOCAL_SIZE={}", host.ranks),
          fmt::format("PACELINE_STORE={}:{}", bracketed_if_needed(store_address), store_port)};
}

}  // namespace paceline
