#include "paceline/cli/cluster_arguments.h"

#include <fmt/format.h>

#include "paceline/cli/at_least_one.h"
#include "paceline/collectives/link_text.h"
#include "paceline/collectives/platforms.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr int kMostOnOneHost = 512;  // unless --ranks-per-host says so

}  // namespace

void ClusterArguments::add_options(CLI::App& command) {
  command.add_option("--ranks", ranks, "How many ranks")->required()->check(at_least_one);
  command
      .add_option("--ranks-per-host", ranks_per_host, "Ranks that share a host (default: abci 4, other platforms all)")
      ->check(at_least_one);
  command
      .add_option("--platform", platform,
                  fmt::format("The links: abci (published runs), or this project's engines on ordinary machines: {}",
                              fmt::join(platform_names().begin() + 1, platform_names().end(), ", ")))
      ->capture_default_str();
  command
      .add_option("--link", link, "What the network carries to and from a host: 25Gbit, 3GB (default: the platform's)")
      ->type_name("BANDWIDTH");
  command.add_option("--latency", latency, "Of a message between hosts: 3us (default: the platform's)")
      ->type_name("TIME");
}

Cluster ClusterArguments::cluster() const {
  Cluster cluster = paceline::platform(platform, ranks, ranks_per_host);
  if (cluster.hosts == 1 && ranks_per_host == 0 && ranks > kMostOnOneHost)
    throw UsageError(fmt::format(
        "--platform {} puts all {} ranks on one host; say with --ranks-per-host how many share one", platform, ranks));
  if (cluster.hosts == 1 && !(link.empty() && latency.empty()))
    throw UsageError(
        "--link and --latency are of the network between hosts, but all ranks are on one host; say with "
        "--ranks-per-host how many share one");
  if (!link.empty()) cluster.network.beta_s_per_byte = 1 / parse_bandwidth(link);
  if (!latency.empty()) cluster.network.alpha_s = parse_latency(latency);
  return cluster;
}

}  // namespace paceline
