#include "paceline/cli/serve_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "paceline/cli/at_least_one.h"
#include "paceline/cli/interrupt.h"
#include "paceline/cli/own_ranks.h"
#include "paceline/cli/server_access.h"
#include "paceline/core/file.h"
#include "paceline/core/number_text.h"
#include "paceline/core/private_folder.h"
#include "paceline/core/recipe.h"
#include "paceline/ps/server.h"
#include "paceline/serving/flat_model.h"
#include "paceline/serving/last_seen.h"
#include "paceline/serving/served_settings.h"
#include "paceline/serving/server_checkpoint.h"
#include "paceline/serving/server_plan.h"
#include "paceline/train/assemble.h"

namespace paceline {
namespace {

struct ServeArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string listen = "127.0.0.1:0";
  std::string shard = "0/1";
  std::string coordinator;
  std::string state;
  std::string checkpoint;
  int workers = 1;
  bool fresh = false;
  ServerAccess access;
};

struct ShardPlace {
  int shard = 0, shards = 1;
};

ShardPlace parse_shard(const std::string& text) {
  ShardPlace place;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%d/%d%c", &place.shard, &place.shards, &rest) != 2 || place.shards < 1 ||
      place.shard < 0 || place.shard >= place.shards)
    throw UsageError(fmt::format("--shard {}: expected I/N with 0 <= I < N, as in --shard 0/2", text));
  return place;
}

ExitCode serve_shard(const ServeArguments& arguments, const Catalog& catalog) {
  const ShardPlace place = parse_shard(arguments.shard);
  Recipe recipe = read_recipe(arguments.recipe, arguments.overrides);
  recipe.sync.servers = place.shards;
  if (!needs_server(recipe))
    recipe.refuse("sync.policy",
                  fmt::format("\"{}\" needs no server; choose bsp, asp, ssp, easgd, drop_worker, k_sync or adaptive_k",
                              recipe.sync.policy));
  if (place.shard > 0 && arguments.coordinator.empty())
    throw UsageError("--coordinator HOST:PORT is missing: where shard 0 listens");

  Log log(stderr_console());
  const Interrupt interrupt([&] { log.info("stopping"); });
  const DatasetPair data = open_data(recipe, catalog);
  FlatModel flat(build_model(recipe, catalog, *data.train));
  ServerPlan plan = server_plan(recipe, flat.model(), data.train->size(), arguments.workers);
  std::optional<ServerRestart> restart;
  int64_t from_update = 0;
  if (!arguments.checkpoint.empty()) {
    const ServerCheckpoint from = read_server_checkpoint({.folder = arguments.checkpoint}, flat.model());
    plan.coordinator.leases = from.leases;
    restart = from.of_shard(plan.map, place.shard);
    from_update = from.state.step;
  }
  const std::vector<float> weights = flat.weights();

  const std::filesystem::path state_folder = arguments.state.empty() ? server_state_folder(arguments.access.run(recipe))
                                                                     : std::filesystem::path(arguments.state);
  ServerOptions options = {.listen = arguments.listen,
                           .shard = place.shard,
                           .map = plan.map,
                           .update = plan.update,
                           .coordinator = plan.coordinator,
                           .coordinator_address = arguments.coordinator,
                           .security = arguments.access.security(ServerAccess::Role::server),
                           .run = arguments.access.run(recipe),
                           .settings = served_settings(recipe, data),
                           .codec = updates_alone(recipe) ? "none" : recipe.comm.codec,
                           .state_folder = state_folder,
                           .restart = restart,
                           .log = &log};
  const bool first_start = starts_before().value_or(0) == 0;  // 'launch --restart' starts the same command again
  if (arguments.fresh && first_start && has_state(state_folder, place.shard)) {
    remove_left_state(state_folder, place.shard);
    log.info("removed the state in {}", state_folder.string());
  }
  if (arguments.state.empty()) make_private_folder(state_folder);
  const bool goes_on = has_state(state_folder, place.shard);
  if (goes_on) log.info("going on with the state in {}; with --fresh it would begin anew", state_folder.string());
  if (restart && !goes_on && place.shard == 0) {
    const RunFolder run = {std::filesystem::weakly_canonical(arguments.checkpoint).parent_path().parent_path()};
    log.warning("going on from the checkpoint at update {}; {}", with_commas(static_cast<uint64_t>(from_update)),
                what_is_lost(from_update, last_seen_updates(run)));
  }
  std::optional<ParameterServer> server;
  try {
    server.emplace(options, std::span(weights).subspan(plan.map.first(place.shard), plan.map.count(place.shard)));
  } catch (...) {  // what never began leaves nothing; what was under way can go on
    if (!goes_on) remove_state(options.state_folder, place.shard);
    throw;
  }
  fmt::print("listening on {}\n", server->address());
  std::fflush(stdout);
  server->wait(interrupt.token());
  server.reset();
  if (interrupt.token().stop_requested()) return ExitCode::interrupted;
  remove_state(options.state_folder, place.shard);  // the run is over: the next one of this name begins anew
  return ExitCode::success;
}

}  // namespace

void add_serve_command(CLI::App& app, const Catalog& catalog, ExitCode& result) {
  CLI::App* command = app.add_subcommand("serve", "Be one server of a parameter server, which workers then train on");
  const auto arguments = std::make_shared<ServeArguments>();
  command->add_option("RECIPE", arguments->recipe, "The recipe, the same for servers and workers")->required();
  command->add_option("--set", arguments->overrides, "Replace a key of the recipe (may be repeated)")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--listen", arguments->listen, "Where to listen (port 0: any that is free)")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  command->add_option("--shard", arguments->shard, "Which part of the parameters this server has, of how many")
      ->capture_default_str()
      ->type_name("I/N");
  command->add_option("--coordinator", arguments->coordinator, "Where shard 0 listens; for all other shards")
      ->type_name("HOST:PORT");
  command->add_option("--workers", arguments->workers, "How many workers the run begins with")
      ->capture_default_str()
      ->check(at_least_one);
  command
      ->add_option("--state", arguments->state,
                   "The folder that survives a killed server (default: below /dev/shm, by the run's name)")
      ->type_name("DIR");
  command
      ->add_option("--checkpoint", arguments->checkpoint,
                   "A checkpoint of this run, all servers from the same one: for servers whose state is lost")
      ->type_name("DIR");
  command->add_flag("--fresh", arguments->fresh, "Begin anew where an earlier server has left its state");
  arguments->access.add_options(*command);
  command->footer(
      "Examples:\n"
      "  paceline serve recipes/fashion_mnist_server.toml --listen 127.0.0.1:7000 --workers 4\n"
      "  paceline train recipes/fashion_mnist_server.toml --servers 127.0.0.1:7000 --ranks 4\n"
      "Two servers on two machines, with certificates of 'paceline certs':\n"
      "  paceline serve R.toml --listen 0.0.0.0:7000 --shard 0/2 --workers 8 --certs certs\n"
      "  paceline serve R.toml --listen 0.0.0.0:7000 --shard 1/2 --workers 8 --certs certs --coordinator a:7000");
  command->callback([arguments, &catalog, &result] { result = serve_shard(*arguments, catalog); });
}

}  // namespace paceline
