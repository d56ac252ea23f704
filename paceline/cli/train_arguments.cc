#include "paceline/cli/train_arguments.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "paceline/core/error.h"

namespace paceline {

void refuse_options_of_servers(const TrainArguments& arguments, const Recipe& recipe) {
  const std::pair<bool, const char*> given[] = {
      {!arguments.servers.empty(), "--servers"}, {!arguments.access.certs.empty(), "--certs"},
      {arguments.access.insecure, "--insecure"}, {!arguments.access.name.empty(), "--run"},
      {arguments.restart, "--restart"},          {arguments.no_restart, "--no-restart"}};
  for (const auto& [is_given, option] : given)
    if (is_given)
      throw UsageError(fmt::format(
          "{} is for runs on a parameter server, and sync.policy is \"{}\": choose another with --set sync.policy=bsp "
          "(asp, ssp, easgd, drop_worker, k_sync, adaptive_k), or leave {} out{}",
          option, recipe.sync.policy, option,
          option == std::string_view("--restart") ? "; ranks are started again by 'paceline launch --restart'" : ""));
}

void refuse_options_without_effect_on_servers(const TrainArguments& arguments, const Recipe& recipe) {
  if (arguments.no_restart && (arguments.restart || !arguments.servers.empty()))
    throw UsageError(fmt::format("--no-restart is for servers that the run starts itself; leave it out with {}",
                                 arguments.restart ? "--restart" : "--servers"));
  if (!arguments.trace.empty()) throw UsageError("--trace does not go with a parameter server");
  if (!arguments.engine.empty())
    throw UsageError(
        fmt::format("--engine says what carries gradients between ranks; with sync.policy = \"{}\" they travel to a "
                    "parameter server, in one way only: leave --engine out, or train without a server with --set "
                    "sync.policy=allreduce",
                    recipe.sync.policy));
  if (!arguments.servers.empty()) return;
  const std::pair<bool, const char*> given[] = {{!arguments.access.certs.empty(), "--certs"},
                                                {arguments.access.insecure, "--insecure"},
                                                {!arguments.access.name.empty(), "--run"}};
  for (const auto& [is_given, option] : given)
    if (is_given)
      throw UsageError(
          fmt::format("{} is for servers that run already; those that a run starts itself listen on loopback, under a "
                      "name and a token of their own: leave {} out, or start servers with 'paceline serve ... {}' "
                      "and say where with --servers",
                      option, option, option));
}

}  // namespace paceline
