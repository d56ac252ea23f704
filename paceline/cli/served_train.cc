#include "paceline/cli/served_train.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <thread>

#include "paceline/core/file.h"
#include "paceline/core/number_text.h"
#include "paceline/launch/supervisor.h"
#include "paceline/rendezvous/secret.h"
#include "paceline/serving/chief.h"
#include "paceline/serving/last_seen.h"
#include "paceline/serving/worker_loop.h"

namespace paceline {
namespace {

constexpr const char* kWorkerVariable = "PACELINE_WORKER";
constexpr const char* kWorkersHereVariable = "PACELINE_WORKERS_HERE";
constexpr const char* kServersVariable = "PACELINE_SERVERS";
constexpr const char* kRunVariable = "PACELINE_SERVER_RUN";
constexpr int kManyRestarts = 1000;
constexpr int64_t kGraceMs = 5000;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

int threads_of_a_worker(const Recipe& recipe, int workers_here) {
  if (recipe.train.threads > 0) return static_cast<int>(recipe.train.threads);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / workers_here);
}

// Folders of runs on this machine whose process is gone: nobody else removes them.
void remove_abandoned_state() {
  std::error_code ignored;
  const std::string prefix = fmt::format("paceline-server-{}-run-", ::getuid());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    const pid_t owner = std::atoi(name.c_str() + prefix.size());
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(entry.path(), ignored);
  }
}

// All processes of a run on this machine, around the chief, which is a thread of this one.
class ServedRun {
 public:
  ServedRun(const Recipe& recipe, const ServedTrainOptions& options)
      : recipe_(recipe),
        options_(options),
        program_(std::filesystem::read_symlink("/proc/self/exe").string()),
        run_(options.servers.empty() ? fmt::format("run-{}", ::getpid()) : options.access.run(recipe)),
        state_(server_state_folder(run_)),
        token_(Secret::random().reveal()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        supervisor_(
            loop_, {.line = [this](const std::string& name, Stream stream,
                                   std::string_view line) { hear(name, stream, line); },
                    .ended = [this](const std::string& name, const Ending& ending) { on_end(name, ending); },
                    .restarted = [this](const std::string& name, const Ending& ending) { on_restart(name, ending); }}) {
    remove_abandoned_state();
    loop_.watch(wake_.number(), POLLIN, [this] {
      uint64_t ignored = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.number(), &ignored, sizeof ignored);
    });
  }
  ~ServedRun() {
    stop_.request_stop();
    if (chief_.joinable()) chief_.join();
    loop_.forget(wake_.number());
    std::error_code ignored;
    if (options_.servers.empty()) std::filesystem::remove_all(state_, ignored);
  }

  Summary run() {
    if (options_.resume && options_.servers.empty()) find_checkpoint();
    servers_ = options_.servers;
    if (servers_.empty()) start_servers();
    start_workers();
    start_chief();
    while (!chief_done_ && !failure_ && !failed_) turn();
    if (failed_) stop_.request_stop();
    chief_.join();
    // A run that has come to its end lets its processes end by themselves; any other stops them.
    const bool ends_by_itself =
        summary_ && summary_->ending != "target" && summary_->ending != "interrupted" && !failed_;
    if (!ends_by_itself) supervisor_.stop_all(kGraceMs);
    const PollLoop::TimerId last = loop_.after(2 * kGraceMs, [this] { supervisor_.stop_all(kGraceMs); });
    while (supervisor_.running() > 0) loop_.turn();
    loop_.cancel(last);
    if (failed_) throw Error(failed_->code, failed_->what);
    if (failure_) std::rethrow_exception(failure_);
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
    const CheckpointStore store(options_.run_folder.checkpoints(), recipe_.checkpoint.keep);
    const CheckpointStore::Search search = store.find_newest_intact();
    for (const std::string& skipped : search.skipped)
      options_.log->warning("skipped a damaged checkpoint: {}", skipped);
    from_ = search.newest;
    const int64_t last_seen = last_seen_updates(options_.run_folder);
    if (!from_) {
      options_.log->warning("no intact checkpoint in {}: starting from the beginning; {}",
                            options_.run_folder.checkpoints().string(), what_is_lost(0, last_seen));
      return;
    }
    store.remove_newer_than(*from_);
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
      while (address.empty() && !failed_) turn();
      if (failed_) throw Error(failed_->code, failed_->what);
    }
  }

  ProcessOrder server_order(int shard, const std::string& listen) const {
    std::vector<std::string> command = with_recipe({program_, "serve"});
    for (const std::string& word :
         {std::string("--listen"), listen, std::string("--shard"), fmt::format("{}/{}", shard, servers_.size()),
          std::string("--workers"), std::to_string(options_.workers), std::string("--run"), run_,
          std::string("--state"), state_.string()})
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

  // One that is started again listens where the others know it, and goes on with the state that it left.
  void start_server(int shard) {
    supervisor_.start(fmt::format("server {}", shard),
                      {.order = server_order(shard, "127.0.0.1:0"),
                       .again = [this, shard] { return server_order(shard, servers_[static_cast<size_t>(shard)]); },
                       .restarts = options_.restart ? kManyRestarts : 0,
                       .final_codes = final_codes()});
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
      supervisor_.start(fmt::format("worker {}", worker), {.order = {.arguments = command, .environment = variables},
                                                           .restarts = options_.restart ? kManyRestarts : 0,
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
                              .run = run_,
                              .run_folder = options_.run_folder,
                              .log = options_.log,
                              .progress = options_.progress,
                              .from = from_,
                              .goes_on = options_.resume && !options_.servers.empty(),
                              .stop = stop_.get_token()});
        summary_ = chief.run();
      } catch (...) {
        failure_ = std::current_exception();
      }
      chief_done_ = true;
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t told = ::write(wake_.number(), &one, sizeof one);
    });
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
    if (!ending.failed() || chief_done_ || failed_) return;
    const std::string said = last_lines_.contains(name) ? fmt::format(": {}", last_lines_[name]) : "";
    const std::string what = fmt::format("{} {}{}", name, ending.text(), said);
    const bool for_good = ending.signal == 0 && ending.code != static_cast<int>(ExitCode::peer);
    if (name.starts_with("server ") || for_good || live_workers() == 0) {
      failed_ = Failure{ending.signal == 0 ? static_cast<ExitCode>(ending.code) : ExitCode::peer,
                        for_good || name.starts_with("server ")
                            ? what
                            : fmt::format("{}; no worker is left{}", what,
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
  const std::filesystem::path state_;
  const std::string token_;
  Descriptor wake_;
  PollLoop loop_;
  Supervisor supervisor_;
  std::vector<std::string> servers_;
  std::optional<CheckpointRef> from_;
  std::map<std::string, std::string> last_lines_;
  std::optional<Failure> failed_;  // a process of the run

  std::stop_source stop_;
  std::thread chief_;
  std::atomic<bool> chief_done_ = false;
  std::optional<Summary> summary_;  // these two: the chief's, until it is done
  std::exception_ptr failure_;
};

}  // namespace

std::optional<int> own_worker_number() {
  const char* text = std::getenv(kWorkerVariable);
  return text != nullptr ? std::optional<int>(std::atoi(text)) : std::nullopt;
}

void work_on_servers(const Recipe& recipe, const ServedTrainOptions& options, int worker) {
  const char* servers = std::getenv(kServersVariable);
  const char* run = std::getenv(kRunVariable);
  const char* here = std::getenv(kWorkersHereVariable);
  WorkerLoop(recipe, {.worker = worker,
                      .workers = options.workers,
                      .servers = servers != nullptr ? split(servers) : options.servers,
                      .security = options.access.security(ServerAccess::Role::client),
                      .run = run != nullptr ? run : options.access.run(recipe),
                      .threads = threads_of_a_worker(
                          recipe, here != nullptr ? std::max(1, std::atoi(here)) : options.workers_here),
                      .stop = options.stop,
                      .log = options.log})
      .run();
}

Summary train_on_servers(const Recipe& recipe, const ServedTrainOptions& options) {
  return ServedRun(recipe, options).run();
}

}  // namespace paceline
