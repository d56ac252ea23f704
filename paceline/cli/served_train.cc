#include "paceline/cli/served_train.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <map>
#include <set>
#include <thread>

#include "paceline/cli/served_worker.h"
#include "paceline/core/file.h"
#include "paceline/core/hmac.h"
#include "paceline/core/number_text.h"
#include "paceline/core/owned_folder.h"
#include "paceline/launch/fruitless_starts.h"
#include "paceline/launch/supervisor.h"
#include "paceline/ps/server.h"
#include "paceline/rendezvous/secret.h"
#include "paceline/rendezvous/world_settings.h"
#include "paceline/serving/chief.h"
#include "paceline/serving/diverged_run.h"
#include "paceline/serving/last_seen.h"

namespace paceline {
namespace {

constexpr int kManyRestarts = 1000;
constexpr int64_t kGraceMs = 5000;
constexpr const char* kAnyPort = "127.0.0.1:0";
constexpr const char* kAgainstKilledServers =
    "go on from the newest checkpoint with --resume, and leave --no-restart out: then servers are started again";

// Where servers that a run has started keep their state: in a new folder, so that no run goes on with another's.
// Nothing removes the folders of runs that were killed but the next run.
std::unique_ptr<OwnedFolder> make_state_folder() {
  const std::string prefix = fmt::format("paceline-train-{}", ::getuid());
  remove_abandoned_folders("/dev/shm", prefix);
  return std::make_unique<OwnedFolder>("/dev/shm", prefix);
}

// A server that was to be started again had lost what it needs for that.
struct StateLost {
  std::string what;
  int64_t begun = 0;  // at which update that part of the run had begun
};

// All processes of a run on this machine, around the chief, which is a thread of this one.
class ServedRun {
 public:
  ServedRun(const Recipe& recipe, const ServedTrainOptions& options)
      : recipe_(recipe),
        options_(options),
        program_(std::filesystem::read_symlink("/proc/self/exe").string()),
        run_(options.servers.empty() ? fmt::format("run-{}", random_hex(8)) : options.access.run(recipe)),
        state_(options.servers.empty() ? make_state_folder() : nullptr),
        token_(Secret::random().reveal()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        diverged_(CheckpointStore(options.run_folder.checkpoints(), recipe.checkpoint.keep, options.log)),
        supervisor_(
            loop_, {.line = [this](const std::string& name, Stream stream,
                                   std::string_view line) { hear(name, stream, line); },
                    .ended = [this](const std::string& name, const Ending& ending) { on_end(name, ending); },
                    .restarted = [this](const std::string& name, const Ending& ending) { on_restart(name, ending); }}) {
    loop_.watch(wake_.number(), POLLIN, [this] {
      uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.number(), &ignored, sizeof ignored);
    });
  }
  ~ServedRun() {
    gone_.request_stop();
    stop_.request_stop();
    if (chief_.joinable()) chief_.join();
    loop_.forget(wake_.number());
  }

  // Throws StateLost when the servers have to begin anew, from a checkpoint.
  Summary run() {
    if (options_.resume && options_.servers.empty()) find_checkpoint();
    servers_ = options_.servers;
    if (servers_.empty()) {
      start_servers();
      start_workers();
      start_chief();
    } else {
      start_chief();
      while (!chief_done_ && !may_begin_) turn();
      if (may_begin_) start_workers();
    }
    while (!chief_done_ && !failed_ && !lost_) turn();
    if (failed_ || lost_) {
      gone_.request_stop();
      stop_.request_stop();
    }
    chief_.join();
    if (summary_) lost_.reset();  // it was over already
    // A run that has come to its end lets its processes end by themselves; any other stops them.
    const bool ends_by_itself =
        summary_ && summary_->ending != "target" && summary_->ending != "interrupted" && !failed_ && !lost_;
    if (!ends_by_itself) supervisor_.stop_all(kGraceMs);
    const PollLoop::TimerId last = loop_.after(2 * kGraceMs, [this] { supervisor_.stop_all(kGraceMs); });
    while (supervisor_.running() > 0) loop_.turn();
    loop_.cancel(last);
    const bool diverged = failed_ && failed_->code == ExitCode::training;
    if (failed_) throw Error(failed_->code, failed_->what + (diverged ? diverged_.advice() : ""));
    if (lost_) throw StateLost(*lost_);
    if (failure_) diverged_.rethrow_with_advice(failure_);
    return *summary_;
  }

 private:
  struct Failure {
    ExitCode code;
    std::string what;
  };

  void turn() {
    if (options_.stop.stop_requested()) stop_.request_stop();
    const PollLoop::TimerId tick = loop_.after(100, [] {});
    loop_.turn();
    loop_.cancel(tick);
  }

  std::vector<std::string> environment() const {
    std::vector<std::string> variables = {fmt::format("{}={}", kRunVariable, run_)};
    if (options_.servers.empty()) variables.push_back(fmt::format("{}={}", kServerTokenVariable, token_));
    return variables;
  }

  std::vector<std::string> with_recipe(std::vector<std::string> command) const {
    command.push_back(options_.recipe_file);
    for (const std::string& override_ : options_.overrides) {
      command.emplace_back("--set");
      command.push_back(override_);
    }
    return command;
  }

  void find_checkpoint() {
    CheckpointStore store(options_.run_folder.checkpoints(), recipe_.checkpoint.keep, options_.log);
    const CheckpointStore::Search search = store.find_newest_intact();
    store.set_aside(search.damaged);
    from_ = search.newest;
    const int64_t last_seen = last_seen_updates(options_.run_folder);
    if (!from_) {
      options_.log->warning("no intact checkpoint in {}: starting from the beginning; {}",
                            options_.run_folder.checkpoints().string(), what_is_lost(0, last_seen));
      return;
    }
    options_.log->warning("going on from the checkpoint at update {} ({}); {}",
                          with_commas(static_cast<uint64_t>(from_->step)), from_->folder.string(),
                          what_is_lost(from_->step, last_seen));
  }

  void start_servers() {
    const auto shards = static_cast<int>(recipe_.sync.servers);
    servers_.resize(static_cast<size_t>(shards));
    for (int shard = 0; shard < shards; ++shard) {
      std::string& address = servers_[static_cast<size_t>(shard)];
      start_server(shard);
      const PollLoop::TimerId late = warn_unless_it_listens(shard);
      while (address.empty() && !failed_ && !options_.stop.stop_requested()) turn();  // one that ends before is no loss
      loop_.cancel(late);
      if (failed_) throw Error(failed_->code, failed_->what);
      if (address.empty())
        throw Error(ExitCode::interrupted, fmt::format("interrupted before server {} listened", shard));
    }
  }

  ProcessOrder server_order(int shard, const std::string& listen) const {
    std::vector<std::string> command = with_recipe({program_, "serve"});
    for (const std::string& word :
         {std::string("--listen"), listen, std::string("--shard"), fmt::format("{}/{}", shard, servers_.size()),
          std::string("--workers"), std::to_string(options_.workers), std::string("--run"), run_,
          std::string("--state"), state_->path().string()})
      command.push_back(word);
    if (from_) {
      command.emplace_back("--checkpoint");
      command.push_back(from_->folder.string());
    }
    if (shard > 0) {
      command.emplace_back("--coordinator");
      command.push_back(servers_[0]);
    }
    return {.arguments = command, .environment = environment()};
  }

  void start_server(int shard) {
    supervisor_.start(fmt::format("server {}", shard),
                      {.order = server_order(shard, kAnyPort),
                       .again = [this, shard](const Ending& ending) { return server_again(shard, ending); },
                       .restarts = options_.restart_servers ? kManyRestarts : 0,
                       .final_codes = final_codes()});
  }

  // To read the data may take long, so this is no error.
  PollLoop::TimerId warn_unless_it_listens(int shard) {
    const int64_t wait_ms = wait_timeout_ms(0, process_environment());
    return loop_.after(wait_ms, [this, shard, wait_ms] {
      if (options_.log)
        options_.log->warning(
            "server {} has not said where it listens for {:.0f} s; if it is not reading its data, look whether it "
            "lacks "
            "memory or threads (ulimit -v, ulimit -u), and end the run with Ctrl-C",
            shard, 1e-3 * static_cast<double>(wait_ms));
    });
  }

  // One that is started again listens where the others know it, and goes on with the state that it left. Before it had
  // said where it listens there is neither.
  std::optional<ProcessOrder> server_again(int shard, const Ending& ending) {
    const std::string name = fmt::format("server {}", shard);
    const std::string& address = servers_[static_cast<size_t>(shard)];
    if (lost_ || is_hopeless(name, ending)) return std::nullopt;
    if (!address.empty() && !has_state(state_->path(), shard)) {
      const std::string folder = state_->path().string();
      lost_ = StateLost{.what = fmt::format("{} {}, and its state in {} is gone", name, ending.text(), folder),
                        .begun = from_ ? from_->step : 0};
      return std::nullopt;
    }
    return server_order(shard, address.empty() ? kAnyPort : address);
  }

  bool is_hopeless(const std::string& name, const Ending& ending) {
    if (!fruitless_.add(name, ending, last_lines_[name], used_samples_)) return false;
    hopeless_.insert(name);
    return true;
  }

  static std::vector<int> final_codes() {
    return {static_cast<int>(ExitCode::training), static_cast<int>(ExitCode::recipe), static_cast<int>(ExitCode::usage),
            static_cast<int>(ExitCode::data)};
  }

  void start_workers() {
    for (int worker = 0; worker < (options_.only_worker_0 ? 1 : options_.workers); ++worker) {
      std::vector<std::string> command = with_recipe({program_, "train"});
      if (!options_.access.certs.empty()) {
        command.emplace_back("--certs");
        command.push_back(options_.access.certs);
      }
      if (options_.access.insecure) command.emplace_back("--insecure");
      command.emplace_back("--ranks");
      command.push_back(std::to_string(options_.workers));
      std::vector<std::string> variables = environment();
      variables.push_back(fmt::format("{}={}", kWorkerVariable, worker));
      variables.push_back(fmt::format("{}={}", kWorkersHereVariable, options_.workers_here));
      variables.push_back(fmt::format("{}={}", kServersVariable, fmt::join(servers_, ",")));
      const std::string name = fmt::format("worker {}", worker);
      ProcessOrder order = {.arguments = command, .environment = variables};
      const auto again = [this, name, order](const Ending& ending) -> std::optional<ProcessOrder> {
        if (is_hopeless(name, ending)) return std::nullopt;
        return order;
      };
      // At the first start only: a checkpoint may be removed later; a later start begins with statistics of its own.
      if (from_) order.environment.push_back(fmt::format("{}={}", kCheckpointVariable, from_->folder.string()));
      supervisor_.start(name, {.order = order,
                               .again = again,
                               .restarts = options_.restart_workers ? kManyRestarts : 0,
                               .final_codes = final_codes()});
    }
  }

  void start_chief() {
    TransportSecurity security = options_.access.security(ServerAccess::Role::client);
    if (options_.servers.empty()) security.token = token_;
    chief_ = std::thread([this, security] {
      try {
        Chief chief(recipe_, {.workers = options_.workers,
                              .servers = servers_,
                              .security = security,
                              .patience_ms = wait_timeout_ms(0, process_environment()),
                              .run = run_,
                              .run_folder = options_.run_folder,
                              .log = options_.log,
                              .progress = options_.progress,
                              .from = from_,
                              .goes_on = options_.resume && !options_.servers.empty(),
                              .may_begin = options_.servers.empty() ? std::function<void()>() : [this] { let_begin(); },
                              .workers_elsewhere = options_.only_worker_0,
                              .looked = [this](uint64_t used_samples) { used_samples_ = used_samples; },
                              .servers_gone = gone_.get_token(),
                              .stop = stop_.get_token(),
                              .catalog = options_.catalog});
        summary_ = chief.run();
      } catch (...) {
        failure_ = std::current_exception();
      }
      chief_done_ = true;
      wake();
    });
  }

  void let_begin() {
    may_begin_ = true;
    wake();
  }

  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t told = ::write(wake_.number(), &one, sizeof one);
  }

  void hear(const std::string& name, Stream stream, std::string_view line) {
    constexpr std::string_view kListening = "listening on ";
    if (stream == Stream::output && name.starts_with("server ") && line.starts_with(kListening)) {
      servers_.at(static_cast<size_t>(std::atoi(name.c_str() + 7))) = line.substr(kListening.size());
      return;
    }
    last_lines_[name] = line;
    if (options_.log) options_.log->info("{}: {}", name, line);
  }

  void on_end(const std::string& name, const Ending& ending) {
    if (!ending.failed() || chief_done_ || failed_ || lost_) return;
    const std::string said = last_lines_.contains(name) ? fmt::format(": {}", last_lines_[name]) : "";
    const std::string what = fmt::format("{} {}{}", name, ending.text(), said);
    const ExitCode code = ending.signal == 0 ? static_cast<ExitCode>(ending.code) : ExitCode::peer;
    const bool for_good = ending.signal == 0 && ending.code != static_cast<int>(ExitCode::peer);
    if (hopeless_.contains(name)) {
      failed_ = Failure{code, fmt::format("{}; it had ended like this before, and the run had got no further", what)};
    } else if (name.starts_with("server ")) {
      const bool killed = ending.signal != 0 && !options_.restart_servers;
      failed_ = Failure{code, killed ? fmt::format("{}; {}", what, kAgainstKilledServers) : what};
    } else if (for_good) {
      failed_ = Failure{code, what};
    } else if (live_workers() == 0) {
      failed_ = Failure{code, fmt::format("{}; no worker is left{}", what,
                                          ending.signal != 0 ? " (--restart starts them again)" : "")};
    } else if (options_.log) {
      options_.log->warning("{}; its samples go to the others", what);
    }
  }

  void on_restart(const std::string& name, const Ending& ending) {
    if (options_.log) options_.log->warning("{} {}: it was started again", name, ending.text());
  }

  int live_workers() const {
    int live = 0;
    for (int worker = 0; worker < options_.workers; ++worker)
      if (supervisor_.running(fmt::format("worker {}", worker))) ++live;
    return live;
  }

  const Recipe& recipe_;
  const ServedTrainOptions& options_;
  const std::string program_, run_;
  const std::unique_ptr<OwnedFolder> state_;  // of servers that are started here
  const std::string token_;
  Descriptor wake_;
  DivergedRun diverged_;
  PollLoop loop_;
  Supervisor supervisor_;
  std::vector<std::string> servers_;
  std::optional<CheckpointRef> from_;
  std::map<std::string, std::string> last_lines_;
  std::optional<Failure> failed_;  // a process of the run
  std::optional<StateLost> lost_;
  FruitlessStarts fruitless_;
  std::set<std::string> hopeless_;          // processes that are not started again for that reason
  std::atomic<uint64_t> used_samples_ = 0;  // as the chief last saw

  std::stop_source stop_, gone_;  // gone: the servers are, for good
  std::thread chief_;
  std::atomic<bool> chief_done_ = false, may_begin_ = false;
  std::optional<Summary> summary_;  // these two: the chief's, until it is done
  std::exception_ptr failure_;
};

}  // namespace

// Servers whose state is gone begin anew from the newest checkpoint, and everything else with them: half a state (of
// one shard, of workers that know later parameters) fits no checkpoint.
Summary train_on_servers(const Recipe& recipe, const ServedTrainOptions& options) {
  ServedTrainOptions part = options;
  for (std::optional<int64_t> begun_before;;) {
    try {
      return ServedRun(recipe, part).run();
    } catch (const StateLost& lost) {
      if (begun_before == lost.begun)
        throw FileError(fmt::format("{}; the same happened before, and the run has no newer checkpoint", lost.what));
      begun_before = lost.begun;
      options.log->warning("{}; all servers and workers are started again", lost.what);
      part.resume = true;
    }
  }
}

}  // namespace paceline
