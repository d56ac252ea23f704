#include "paceline/launch/launch.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/core/open_files.h"
#include "paceline/launch/held_signals.h"
#include "paceline/launch/launch_plan.h"
#include "paceline/launch/launch_verdict.h"
#include "paceline/launch/local_ranks.h"
#include "paceline/launch/mpirun.h"
#include "paceline/launch/rank_printer.h"
#include "paceline/launch/remote_ranks.h"
#include "paceline/launch/restart_rule.h"
#include "paceline/rendezvous/descriptor.h"
#include "paceline/rendezvous/store_server.h"

extern char** environ;

namespace paceline {
namespace {

std::string this_host_name() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string unique_job_name() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{:x}-{:x}", std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count(),
                     ::getpid());
}

// What the user set for the ranks: local ones inherit it, ssh would drop it.
std::vector<std::string> own_settings() {
  std::vector<std::string> settings;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string_view(*entry).starts_with("PACELINE_")) settings.emplace_back(*entry);
  return settings;
}

bool needs_mpirun(const std::string& engine) { return engine == "mpi" || engine == "shm+mpi"; }

// Serves the ranks' store. Whom its thread turns away is printed from the launcher's loop.
class ServedStore {
 public:
  ServedStore(PollLoop& loop, RankPrinter& printer, StoreServer::Options options, const Secret& secret) : loop_(loop) {
    options.refused = [this](const std::string& why) {
      const std::lock_guard lock(mutex_);
      refusals_.push_back(why);
      wake_up_.call();
    };
    loop_.watch(wake_up_.descriptor(), POLLIN, [this, &printer] {
      wake_up_.clear();
      const std::lock_guard lock(mutex_);
      for (const std::string& why : std::exchange(refusals_, {})) printer.note("store", why);
    });
    server_.emplace(options, secret);
  }
  ~ServedStore() { loop_.forget(wake_up_.descriptor()); }

  uint16_t port() const { return server_->port(); }
  void declare_dead(int rank, const std::string& how) { server_->declare_dead(rank, how); }
  bool anybody_came() const { return server_->anybody_came(); }

 private:
  PollLoop& loop_;
  WakeUp wake_up_;
  std::mutex mutex_;
  std::vector<std::string> refusals_;
  std::optional<StoreServer> server_;  // last: its thread uses the others
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options);
  int run();

 private:
  enum class Phase : uint8_t {
    connecting,  // to other hosts
    running,
    failing,   // a rank failed: the others may end by themselves
    stopping,  // all were asked to end
    killing
  };

  // ---- the beginning ----
  void find_hosts();
  bool ready() const;
  void start();
  void require_files() const;
  void start_mpirun();
  StoreServer::Options store_options() const;
  JobOrder job_for(const PlannedHost& host, int first_rank, int ranks) const;
  RankEvents events();

  // ---- while it runs ----
  void turn();
  void on_ended(int rank, const Ending& ending);
  void start_again(int rank, const Ending& ending);
  void start_all_again();
  bool may_start_all_again() const;
  std::string name_of(int rank) const;
  void on_signal();
  void stop(int signal);
  void signal_all(int signal);
  void kill();

  // ---- the end ----
  bool gone() const;
  void flush();
  int conclude();

  LaunchOptions options_;
  HeldSignals signals_;  // before any thread is started
  PollLoop loop_;
  RankPrinter printer_;
  std::vector<PlannedHost> plan_;
  std::string store_address_;  // as ranks reach it
  RunSettings settings_;
  std::optional<ServedStore> store_;  // not under mpirun
  std::vector<std::unique_ptr<HostRanks>> hosts_;
  Phase phase_ = Phase::connecting;
  int running_ = 0;                 // ranks
  int restarting_ = 0;              // ranks that wait to be started again
  bool others_were_ended_ = false;  // because one failed
  int stop_signal_ = 0;
  bool impatient_ = false;  // Ctrl-C came again
  LaunchVerdict verdict_;
  RestartRule restarts_;
};

Launcher::Launcher(const LaunchOptions& options)
    : options_(options),
      printer_(loop_, options.prefixes),
      plan_(plan_hosts(options.ranks, options.hosts, this_host_name())),
      store_address_(options.address),
      restarts_(options.restarts) {
  if (options_.command.empty()) throw UsageError("say what to run: paceline launch -n N -- PROGRAM ARGUMENTS...");
  if (options_.restarts > 0 && needs_mpirun(options_.engine))
    throw UsageError(fmt::format(
        "--restart does not go with --engine {}: mpirun ends all ranks when one fails; run the command again (paceline "
        "train: with --resume), or take another engine",
        options_.engine));
  // Before anything is started, what can be known to fail.
  if (std::ranges::any_of(plan_, &PlannedHost::here)) find_program(options_.command.front());
  const auto other = std::ranges::find(plan_, false, &PlannedHost::here);
  if (store_address_.empty() && !needs_mpirun(options_.engine))
    store_address_ = other == plan_.end() ? "127.0.0.1" : address_towards(other->name);
  loop_.watch(signals_.descriptor(), POLLIN, [this] { on_signal(); });
}

int Launcher::run() {
  try {
    find_hosts();
    while (phase_ == Phase::connecting && !ready()) turn();
    if (phase_ == Phase::connecting) start();
    for (;;) {
      while (!gone() || restarting_ > 0) turn();
      if (!may_start_all_again()) break;
      start_all_again();
    }
    for (const auto& host : hosts_) host->release();
    while (!gone()) turn();
  } catch (...) {
    kill();
    while (!gone()) try {
        turn();
      } catch (const Error&) {  // the first one is told
      }
    flush();
    throw;
  }
  return conclude();
}

void Launcher::find_hosts() {
  if (needs_mpirun(options_.engine)) {
    hosts_.push_back(std::make_unique<MpirunRanks>(
        loop_, events(), MpirunOptions{.ranks = rank_count(plan_), .hosts = options_.hosts, .rsh = options_.rsh}));
    return;
  }
  RemoteShell shell = {.program = options_.remote_program, .hello_ms = options_.hello_ms};
  if (!options_.rsh.empty()) shell.command = options_.rsh;
  if (shell.program.empty()) shell.program = std::filesystem::read_symlink("/proc/self/exe");
  for (const PlannedHost& host : plan_) {
    if (host.here)
      hosts_.push_back(
          std::make_unique<LocalRanks>(loop_, events(), inherited_input(), options_.first_rank_has_the_terminal));
    else
      hosts_.push_back(std::make_unique<RemoteRanks>(loop_, events(), host.name, shell));
  }
}

bool Launcher::ready() const {
  return std::ranges::all_of(hosts_, [](const auto& host) { return host->ready(); });
}

void Launcher::start() {
  phase_ = Phase::running;
  settings_ = {.job = unique_job_name(),
               .generation = settings_.generation,
               .engine = options_.engine,
               .timeout_s = options_.timeout_s};
  require_files();
  if (needs_mpirun(options_.engine)) return start_mpirun();
  const Secret secret = Secret::random();
  settings_.secret = secret.reveal();
  running_ = rank_count(plan_);
  store_.emplace(loop_, printer_, store_options(), secret);
  for (size_t i = 0; i < plan_.size(); ++i) hosts_[i]->start(job_for(plan_[i], plan_[i].first_rank, plan_[i].ranks));
}

// Pipes, connections and events of the ranks. mpirun needs more than it says: it crashes where it has too few.
void Launcher::require_files() const {
  const auto ranks = static_cast<size_t>(rank_count(plan_));
  const size_t files = needs_mpirun(options_.engine) ? 64 + 8 * ranks : 16 + 8 * ranks;
  require_open_files(files, fmt::format("a run of {} rank(s)", ranks));
}

void Launcher::start_mpirun() {
  running_ = 1;
  std::vector<std::string> environment = common_environment(settings_);
  if (!options_.address.empty()) environment.push_back("PACELINE_ADDRESS=" + options_.address);
  hosts_.front()->start({.command = options_.command, .ranks = {{.environment = environment}}});
}

StoreServer::Options Launcher::store_options() const {
  StoreServer::Options options = {
      .address = store_address_, .ranks = rank_count(plan_), .generation = settings_.generation};
  if (!std::ranges::all_of(plan_, &PlannedHost::here))  // others may come over any network
    options.address = store_address_.find(':') != std::string::npos ? "::" : "0.0.0.0";
  return options;
}

JobOrder Launcher::job_for(const PlannedHost& host, int first_rank, int ranks) const {
  JobOrder job = {
      .command = options_.command, .folder = std::filesystem::current_path(), .more = options_.restarts > 0};
  for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
    std::vector<std::string> environment = host.here ? std::vector<std::string>{} : own_settings();
    for (const auto& more : {common_environment(settings_),
                             rank_environment(host, rank, rank_count(plan_), store_address_, store_->port())})
      environment.insert(environment.end(), more.begin(), more.end());
    if (options_.restarts > 0) environment.push_back(fmt::format("PACELINE_RESTARTS={}", restarts_.starts(rank)));
    job.ranks.push_back({.rank = rank, .environment = std::move(environment)});
  }
  return job;
}

RankEvents Launcher::events() {
  return {.line =
              [this](int rank, Stream stream, std::string_view line) {
                printer_.print(rank, stream, line);
                if (stream == Stream::errors) verdict_.add_error_line(rank, line);
              },
          .ended = [this](int rank, const Ending& ending) { on_ended(rank, ending); },
          .note = [this](const std::string& from, std::string_view line) { printer_.note(from, line); }};
}

void Launcher::turn() {
  for (const auto& host : hosts_) host->pause(printer_.full());
  loop_.turn();
  if (printer_.broken() && stop_signal_ == 0) stop(SIGPIPE);
}

void Launcher::on_ended(int rank, const Ending& ending) {
  --running_;
  if (!ending.failed() || (phase_ != Phase::running && phase_ != Phase::failing)) return;
  const bool alone = store_ && !store_->anybody_came();  // a group would be broken without it
  if (phase_ == Phase::running && alone && restarts_.may_start_rank(rank, ending)) return start_again(rank, ending);
  verdict_.add_failure(rank, ending);
  if (store_) store_->declare_dead(rank, ending.text());
  if (phase_ == Phase::failing) return;
  phase_ = Phase::failing;
  others_were_ended_ = running_ > 0;
  loop_.after(options_.grace_ms, [this, generation = settings_.generation] {
    if (phase_ != Phase::failing || settings_.generation != generation) return;
    phase_ = Phase::stopping;
    signal_all(SIGTERM);
    loop_.after(options_.term_ms, [this, generation] {
      if (settings_.generation != generation) return;
      phase_ = Phase::killing;
      for (const auto& host : hosts_) host->kill_ranks();
    });
  });
}

void Launcher::start_again(int rank, const Ending& ending) {
  const int time = restarts_.start_rank(rank);
  printer_.message(fmt::format("paceline: {} {}{}: it is started again ({} of {})\n", name_of(rank),
                               ending.signal != 0 ? "was " : "", ending.text(), time, restarts_.most()));
  ++restarting_;
  loop_.after(options_.restart_pause_ms, [this, rank] {
    --restarting_;
    if (phase_ != Phase::running) return;
    const PlannedHost& host = host_of(plan_, rank);
    ++running_;
    hosts_[static_cast<size_t>(&host - plan_.data())]->start(job_for(host, rank, 1));
  });
}

bool Launcher::may_start_all_again() const {
  return !verdict_.empty() && stop_signal_ == 0 && store_ && store_->anybody_came() &&
         restarts_.may_start_all(verdict_.ending());
}

void Launcher::start_all_again() {
  const int time = restarts_.start_all();
  printer_.message(fmt::format("paceline: {}paceline: all ranks are started again ({} of {})\n",
                               verdict_.text(name_of(verdict_.rank()), others_were_ended_), time, restarts_.most()));
  verdict_ = {};
  others_were_ended_ = false;
  ++settings_.generation;
  store_.reset();
  start();
}

std::string Launcher::name_of(int rank) const {
  return fmt::format("rank {} on host {}", rank, host_of(plan_, rank).name);
}

void Launcher::on_signal() {
  while (const auto signal = signals_.next()) stop(*signal);
}

void Launcher::stop(int signal) {
  if (phase_ == Phase::connecting || phase_ == Phase::running) {
    stop_signal_ = signal;
    if (phase_ == Phase::connecting) return kill();
    phase_ = Phase::stopping;
    const bool through_mpirun = needs_mpirun(options_.engine) && options_.ranks_stop_on_usr1;
    signal_all(through_mpirun ? SIGUSR1 : signal == SIGPIPE ? SIGTERM : signal);
    loop_.after(options_.stop_ms, [this] { kill(); });
  } else {
    impatient_ = stop_signal_ != 0 || gone();
    kill();
  }
}

void Launcher::signal_all(int signal) {
  for (const auto& host : hosts_) host->signal(signal);
}

void Launcher::kill() {
  phase_ = Phase::killing;
  signal_all(SIGKILL);
}

bool Launcher::gone() const {
  return std::ranges::all_of(hosts_, [](const auto& host) { return host->gone(); });
}

void Launcher::flush() {
  while (!printer_.flushed() && !impatient_) loop_.turn();
}

int Launcher::conclude() {
  if (!verdict_.empty() && stop_signal_ == 0) {
    const int rank = verdict_.rank();
    const std::string who = rank == RankEvents::kAll ? "mpirun" : name_of(rank);
    printer_.message("paceline: " + verdict_.text(who, others_were_ended_));
  }
  flush();
  CHECK_EQ(running_, 0);
  return stop_signal_ != 0 ? 128 + stop_signal_ : verdict_.exit_code();
}

}  // namespace

int launch(const LaunchOptions& options) { return Launcher(options).run(); }

}  // namespace paceline
