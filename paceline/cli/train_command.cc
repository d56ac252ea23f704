#include "paceline/cli/train_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <optional>
#include <sstream>
#include <thread>

#include "paceline/cli/at_least_one.h"
#include "paceline/cli/crowding.h"
#include "paceline/cli/interrupt.h"
#include "paceline/cli/own_ranks.h"
#include "paceline/cli/run_choice.h"
#include "paceline/cli/served_worker.h"
#include "paceline/cli/train_arguments.h"
#include "paceline/core/file.h"
#include "paceline/core/open_files.h"
#include "paceline/core/pinning.h"
#include "paceline/core/recipe_notes.h"
#include "paceline/core/shell_quoted.h"
#include "paceline/rendezvous/slurm_tasks.h"
#include "paceline/rendezvous/world.h"
#include "paceline/serving/server_plan.h"
#include "paceline/train/earlier_run.h"
#include "paceline/train/run_lock.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

std::string command_to_resume(const TrainArguments& arguments, const RunFolder& folder) {
  std::vector<std::string> words = {arguments.program, "train", arguments.recipe};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  for (const std::string& override_ : arguments.overrides) add("--set", override_);
  if (arguments.ranks > 0) add("--ranks", std::to_string(arguments.ranks));
  add("--engine", arguments.engine);
  add("--servers", fmt::format("{}", fmt::join(arguments.servers, ",")));
  add("--run", arguments.access.name);
  add("--certs", arguments.access.certs);
  if (arguments.access.insecure) words.emplace_back("--insecure");
  if (arguments.restart) words.emplace_back("--restart");
  if (arguments.no_restart) words.emplace_back("--no-restart");
  add("--out", folder.root.string());
  words.emplace_back("--resume");
  for (std::string& word : words) word = shell_quoted(word);
  return fmt::format("{}", fmt::join(words, " "));
}

// After a rank, a worker or a server has died.
std::string how_to_go_on(const TrainArguments& arguments, const RunFolder& folder) {
  const std::string command = command_to_resume(arguments, folder);
  const auto checkpoints = CheckpointStore(folder.checkpoints(), /*keep=*/1).all();
  if (checkpoints.empty())
    return fmt::format(
        "there is no checkpoint yet (checkpoint.every_steps writes them more often); begin again with:\n  {}", command);
  return fmt::format("the newest checkpoint is {}; go on with:\n  {}", checkpoints.back().folder.string(), command);
}

size_t columns_of_output() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : std::string::npos;
}

// A table of names and values in lines of at most `columns`, broken at spaces; what follows stands below its value.
std::string fitted(const std::string& table, size_t columns) {
  constexpr size_t kIndent = 16;
  std::string text;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    while (line.size() > columns) {
      const size_t space = line.rfind(' ', columns);
      if (space == std::string::npos || space <= kIndent) break;  // a long word stands as it is
      text += line.substr(0, space) + "\n";
      line = std::string(kIndent, ' ') + line.substr(space + 1);
    }
    text += line + "\n";
  }
  return text;
}

void print_results(const Summary& summary, const RunFolder& folder) {
  const std::string root = folder.root.string();
  std::string table = to_table(summary);
  table += fmt::format("  {:<14}{}/ (summary.json, metrics.jsonl, curves.svg, checkpoints/)\n", "results", root);
  table += fmt::format("  {:<14}tensorboard --logdir {}\n", "", root);
  fmt::print("\n{}", fitted(table, columns_of_output()));
}

// Whether a launcher has given this process cores of its own.
bool is_bound() { return allowed_cores().size() < std::thread::hardware_concurrency(); }

// A rank keeps to its share of the cores, unless its launcher has seen to that.
void pin_rank(const Identity& identity) {
  if (identity.local_size < 2 || is_bound()) return;
  pin_to(cores_of_part(allowed_cores(), identity.local_rank, identity.local_size));
}

bool is_absent(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found;
}

// What rank 0 shows and keeps; the others are silent, and fail for themselves.
class Desk {
 public:
  Desk(const TrainArguments& arguments, const Recipe& recipe)
      : folder_(choose_run_folder(recipe.title, arguments.out, arguments.resume)),
        progress_(stderr, !arguments.quiet && isatty(STDERR_FILENO) != 0,
                  arguments.quiet ? 0 : recipe.train.log_every_steps),
        log_([this](std::string_view line) { progress_.line(line); }),
        new_(is_absent(folder_.root)) {
    make_directories(folder_.root);
    lock_.emplace(folder_);
    std::error_code absent;
    if (arguments.resume && std::filesystem::equivalent(arguments.recipe, folder_.recipe(), absent))
      require_recipe_as_written(folder_);
    if (arguments.quiet) log_.set_level(Log::Level::warning);
    log_.write_to(folder_.log());
  }
  const RunFolder& folder() const { return folder_; }
  Progress& progress() { return progress_; }
  Log& log() { return log_; }

  // A run that failed before it began, for a mistake in its recipe, leaves no folder: the next has the same name.
  void clear_if_nothing_began() {
    std::error_code ignored;
    if (new_ && !folder_.holds_a_run()) std::filesystem::remove_all(folder_.root, ignored);
  }

 private:
  RunFolder folder_;
  std::optional<RunLock> lock_;
  Progress progress_;
  Log log_;
  const bool new_;  // the folder
};

ExitCode conclude(const TrainArguments& arguments, const Summary& summary, Desk& desk) {
  if (arguments.json) {
    fmt::print("{}\n", to_json(summary).dump(2));
  } else {
    print_results(summary, desk.folder());
  }
  if (summary.ending != "interrupted") return ExitCode::success;
  desk.log().info("interrupted at step {}; go on with:\n  {}", summary.steps,
                  command_to_resume(arguments, desk.folder()));
  return ExitCode::interrupted;
}

ExitCode train(const TrainArguments& arguments, const Recipe& recipe) {
  const Identity identity = find_identity(process_environment());
  pin_rank(identity);
  std::optional<Desk> desk;
  if (identity.rank == 0) desk.emplace(arguments, recipe);
  const Interrupt interrupt([&] {  // before threads are started, which must not be interrupted
    if (desk) desk->log().info("stopping after this step and writing a checkpoint (Ctrl-C again: stop at once)");
  });
  World world = World::connect({.engine = arguments.engine.empty() ? recipe.comm.engine : arguments.engine});
  Group& group = world.group();
  try {
    TrainerOptions options = {
        .resume = arguments.resume, .trace = arguments.trace, .stop = interrupt.token(), .catalog = arguments.catalog};
    if (desk) {
      options.run_folder = desk->folder();
      options.log = &desk->log();
      if (!arguments.quiet) options.progress = &desk->progress();
    }
    const Summary summary = Trainer(recipe, group, options).run();
    if (desk) return conclude(arguments, summary, *desk);
    return summary.ending == "interrupted" ? ExitCode::interrupted : ExitCode::success;
  } catch (Error& error) {
    if (desk) {
      desk->progress().finish();
      desk->log().debug("failed: {}", error.what());  // for log.txt; main tells the terminal
      const bool starter_tells = arguments.ranks > 1;
      if (error.exit_code() == ExitCode::peer && !starter_tells)
        desk->log().info("{}", how_to_go_on(arguments, desk->folder()));
      desk->clear_if_nothing_began();
    } else if (error.exit_code() == ExitCode::recipe) {
      error.set_told();  // all ranks read the same recipe: one tells
    }
    throw;
  }
}

// On a parameter server: as the chief, which starts the other processes, or as a worker that it has started.
ExitCode train_served(const TrainArguments& arguments, Recipe recipe) {
  if (!arguments.servers.empty()) recipe.sync.servers = static_cast<int64_t>(arguments.servers.size());
  if (!own_worker_number()) refuse_options_without_effect_on_servers(arguments, recipe);
  ServedTrainOptions options = {.recipe_file = arguments.recipe,
                                .overrides = arguments.overrides,
                                .workers = std::max(arguments.ranks, 1),
                                .workers_here = std::max(arguments.ranks, 1),
                                .servers = arguments.servers,
                                .resume = arguments.resume,
                                .restart_servers = !arguments.no_restart,
                                .restart_workers = arguments.restart,
                                .access = arguments.access,
                                .catalog = arguments.catalog};
  // Every rank of a launcher is a worker; the first one's process is the chief, and starts its own worker.
  if (!own_worker_number() && is_rank()) {
    require_ranks(arguments.ranks);
    if (arguments.servers.empty())
      throw UsageError(
          "ranks of a launcher need servers that run already: start them with 'paceline serve' and say "
          "where with --servers; or leave the launcher out, and 'paceline train --ranks N' starts all");
    const Identity identity = find_identity(process_environment());
    options.workers = identity.size;
    options.workers_here = is_bound() ? 1 : identity.local_size;
    options.only_worker_0 = true;
    options.restart_workers |= starts_before().has_value();
  }
  if (const std::optional<WorkerSeat> seat = worker_seat(process_environment())) {
    const Interrupt interrupt([] {});
    Log log(stderr_console());
    log.set_level(Log::Level::warning);
    options.stop = interrupt.token();
    options.log = &log;
    work_on_servers(recipe, options, *seat);
    return interrupt.token().stop_requested() ? ExitCode::interrupted : ExitCode::success;
  }
  if (options.servers.empty()) {
    const auto processes = static_cast<size_t>(options.workers + recipe.sync.servers);
    require_open_files(32 + 6 * processes, fmt::format("a run of {} worker{} and {} server{}", options.workers,
                                                       options.workers == 1 ? "" : "s", recipe.sync.servers,
                                                       recipe.sync.servers == 1 ? "" : "s"));
  }
  Desk desk(arguments, recipe);
  const Interrupt interrupt([&] { desk.log().info("stopping and writing a checkpoint (Ctrl-C again: stop at once)"); });
  options.run_folder = desk.folder();
  options.log = &desk.log();
  if (!arguments.quiet) options.progress = &desk.progress();
  options.stop = interrupt.token();
  try {
    return conclude(arguments, train_on_servers(recipe, options), desk);
  } catch (const Error& error) {
    desk.progress().finish();
    desk.log().debug("failed: {}", error.what());
    if (error.exit_code() == ExitCode::peer && desk.folder().holds_a_run())
      desk.log().info("{}", how_to_go_on(arguments, desk.folder()));
    desk.clear_if_nothing_began();
    throw;
  }
}

// Starts as many processes of this very command; each then finds out which rank it is.
int start_ranks(const TrainArguments& arguments, const Recipe& recipe) {
  choose_run_folder(recipe.title, arguments.out, arguments.resume);  // throws here once, and not in each rank
  const std::string& engine = arguments.engine.empty() ? recipe.comm.engine : arguments.engine;
  const int code = launch_own_ranks({.ranks = arguments.ranks,
                                     .engine = engine == "auto" ? "" : engine,
                                     .first_rank_has_the_terminal = true,
                                     .ranks_stop_on_usr1 = true,
                                     .stop_ms = 600'000},  // a step may take long, and a checkpoint is written then
                                    {});
  constexpr int kSignals = 128;
  const bool died = code > kSignals && code != static_cast<int>(ExitCode::interrupted);
  const RunFolder folder = choose_run_folder(recipe.title, arguments.out, /*resume=*/true);
  if ((died || code == static_cast<int>(ExitCode::peer)) && folder.holds_a_run())
    fmt::print(stderr, "{}\n", how_to_go_on(arguments, folder));
  return code;
}

// Before anything is started, which may take long where it is too much.
void tell_what_to_know(const TrainArguments& arguments, const Recipe& recipe) {
  const auto warn = [](const std::string& text) { fmt::print(stderr, "paceline: warning: {}\n", text); };
  for (const std::string& note : override_notes(arguments.recipe, arguments.overrides)) warn(note);
  if (is_rank()) return;
  if (const auto ranks = slurm_tasks_left_out(process_environment()); ranks && arguments.ranks == 0)
    warn(fmt::format(
        "Slurm gave this job {} tasks, but this process trains alone; write 'srun {} train {}' in the batch "
        "script ('--ranks 1' trains alone without this line)",
        *ranks, arguments.program, arguments.recipe));
  check_threads(recipe);
  if (!needs_server(recipe) || !arguments.servers.empty()) return;
  const int64_t workers = std::max(arguments.ranks, 1), servers = recipe.sync.servers;
  const std::string ranks = fmt::format("--ranks {}", workers), own_servers = fmt::format("sync.servers = {}", servers);
  require_possible(fmt::format("{} with {}", ranks, own_servers), workers + servers);
  warn_of_crowding(ranks, workers);
  warn_of_crowding(own_servers, servers);
}

// Told before the run: the trace is written when it is over. Its folder may be one that the run makes.
std::string why_no_trace(const std::string& name) {
  if (name.empty()) return "the name of the file is empty; leave --trace away for none";
  std::error_code unknown;
  const auto type = std::filesystem::status(name, unknown).type();
  const bool can_be_written =
      type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::regular;
  return can_be_written ? "" : fmt::format("{} is no regular file; name another", name);
}

}  // namespace

void add_train_command(CLI::App& app, const std::string& program, const Catalog& catalog, ExitCode& result,
                       int& exit_code) {
  CLI::App* command =
      app.add_subcommand("train", "Train a model as a recipe says, and leave a folder with the results");
  const auto arguments = std::make_shared<TrainArguments>(TrainArguments{.catalog = catalog, .program = program});
  command->add_option("RECIPE", arguments->recipe, "The recipe, a TOML file; 'paceline recipe keys' explains every key")
      ->required();
  command
      ->add_option("--set", arguments->overrides, "Replace a key of the recipe: --set train.epochs=3 (may be repeated)")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--out", arguments->out,
                   "The folder for the results (default: runs/NAME, or runs/NAME-2 ... when taken)")
      ->check([](const std::string& folder) {
        return folder.empty() ? std::string("the name of the folder is empty; leave --out away for one below runs/")
                              : "";
      })
      ->type_name("DIR");
  command
      ->add_option("--ranks", arguments->ranks,
                   "How many processes train together on this machine (default: 1; other machines: 'paceline launch')")
      ->check(at_least_one);
  command->add_option("--engine", arguments->engine,
                      "What carries gradients: shm, gloo, mpi, shm+gloo, shm+mpi (default: comm.engine)");
  command
      ->add_option("--servers", arguments->servers,
                   "A parameter server that runs already, shard 0 first (default: started here); see 'paceline serve'")
      ->type_name("HOST:PORT,...")
      ->delimiter(',');
  command->add_flag("--restart", arguments->restart, "On a parameter server: start workers again that die");
  command->add_flag("--no-restart", arguments->no_restart,
                    "On a parameter server: do not start servers again that die; the run ends then");
  arguments->access.add_options(*command);
  command->add_option("--trace", arguments->trace, "Write what every rank did when, for chrome://tracing or Perfetto")
      ->check(why_no_trace)
      ->type_name("FILE");
  command->add_flag(
      "--resume", arguments->resume,
      "Go on from the newest intact checkpoint in the folder (default: the recipe's last run); where there "
      "is none yet, begin: a script that starts a run again can give it every time, with --out");
  command->add_flag("--json", arguments->json, "Print the summary as JSON on standard output");
  command->add_flag("--quiet", arguments->quiet, "No progress, only warnings and the results");
  command->footer(
      "Examples:\n"
      "  paceline train recipes/fashion_mnist.toml\n"
      "  paceline train recipes/fashion_mnist.toml --set train.epochs=1 --set optimizer.rate=0.05 --out runs/try\n"
      "  paceline train recipes/fashion_mnist.toml --resume\n"
      "  paceline train recipes/fashion_mnist.toml --ranks 4\n"
      "  paceline launch -n 8 --hosts a:4,b:4 -- paceline train recipes/fashion_mnist.toml\n"
      "  mpirun -n 4 paceline train recipes/fashion_mnist.toml\n"
      "Ctrl-C writes a checkpoint and says how to go on.");
  command->callback([arguments, &result, &exit_code] {
    const Recipe recipe = read_recipe(arguments->recipe, arguments->overrides);
    const bool told = is_rank() && arguments->ranks > 0;  // by the process that has started the ranks
    if (!told && !own_worker_number() && find_identity(process_environment()).rank == 0)
      tell_what_to_know(*arguments, recipe);
    if (const std::optional<int> before = starts_before(); before && is_rank() && !own_worker_number()) {
      if (arguments->out.empty())
        throw UsageError("under 'launch --restart' give --out DIR: ranks that are started again find their run there");
      if (*before > 0) arguments->resume = true;
    }
    if (needs_server(recipe)) {
      result = train_served(*arguments, recipe);
      return;
    }
    refuse_options_of_servers(*arguments, recipe);
    if (is_rank()) require_ranks(arguments->ranks);
    if (arguments->ranks > 1 && !is_rank()) {
      exit_code = start_ranks(*arguments, recipe);
    } else {
      result = train(*arguments, recipe);
    }
  });
}

}  // namespace paceline
