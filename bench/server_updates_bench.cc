// A parameter server and workers that do nothing but push and pull, for two hosts: updates per second.
//
//   server_updates_bench --serve HOST:PORT --megabytes N --workers N       prints its address; ends with its input
//   server_updates_bench --work HOST:PORT --megabytes N --workers N [--seconds S] [--apart S]
//
// An update is a gradient of the model's size on its way to the server, a step of SGD with momentum, and the new
// parameters on their way back; asynchronous, so that workers wait for the server and for each other's bytes only. Each
// worker is a process. They begin `apart` seconds after one another: all at once they would share the link while they
// push, end together, share it while they pull, and so use one direction of it at a time for ever. They push for
// `seconds`, at least kLeastPushes times each; counted is the time in which all of them were at it, from the end of the
// last one's first push to the end of the first one's last.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench_server.h"
#include "paceline/core/clock.h"
#include "paceline/ps/worker.h"

namespace paceline {
namespace {

constexpr int kLeastPushes = 4;  // of each worker

struct UpdatesBench {
  std::string serve, work;
  double megabytes = 100, seconds = 3, apart = 0;
  int workers = 1;
  uint64_t elements() const { return static_cast<uint64_t>(megabytes * 250'000); }
};

double cpu_s() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void serve(const UpdatesBench& bench) {
  const BenchFolder folder("/dev/shm");
  ServerOptions options = bench_server(bench.elements(), bench.workers, folder.path());
  options.listen = bench.serve;
  options.security = bench_security({}, true);
  ParameterServer server(options, std::vector<float>(bench.elements(), 0.5f));
  fmt::print("{}\n", server.address());
  std::fflush(stdout);
  const double before_s = cpu_s();
  char ignored = 0;
  while (::read(STDIN_FILENO, &ignored, 1) > 0) {
  }  // until whoever started this has had enough
  fmt::print("{}\n", nlohmann::json{{"server_cpu_s", cpu_s() - before_s}}.dump());
}

struct BenchPipe {
  int ends[2] = {-1, -1};
  BenchPipe() {
    if (::pipe(ends) != 0) throw FileError("no pipe");
  }
  void put(const void* data, size_t bytes) const {
    for (const char* at = static_cast<const char*>(data); bytes > 0;) {
      const ssize_t done = ::write(ends[1], at, bytes);
      if (done <= 0) throw PeerError("the other end of a pipe is gone");
      at += done, bytes -= static_cast<size_t>(done);
    }
  }
  void get(void* data, size_t bytes) const {
    for (char* at = static_cast<char*>(data); bytes > 0;) {
      const ssize_t done = ::read(ends[0], at, bytes);
      if (done <= 0) throw PeerError("a worker ended before its time; its own line says why");
      at += done, bytes -= static_cast<size_t>(done);
    }
  }
};

// One worker's process. `out` gets a byte when the worker is ready, then a count and the times at which its pushes
// ended; `go` gives the time at which to stop.
void work(const UpdatesBench& bench, int id, const BenchPipe& go, const BenchPipe& out) {
  ServerWorker worker({.servers = {bench.work},
                       .map = bench_map(bench.elements()),
                       .worker = id,
                       .run = kBenchRun,
                       .security = bench_security({}, false)});
  std::vector<float> parameters(bench.elements());
  const std::vector<float> gradient(bench.elements(), 1e-3f);
  worker.join(parameters);
  worker.push(gradient, 1, 1e-3, parameters);
  out.put("r", 1);
  int64_t until_ns = 0;
  go.get(&until_ns, sizeof until_ns);
  std::this_thread::sleep_for(std::chrono::duration<double>(id * bench.apart));
  std::vector<int64_t> ends_ns;
  while (ends_ns.size() < kLeastPushes || ends_ns.back() < until_ns) {
    worker.push(gradient, 1, 1e-3, parameters);
    ends_ns.push_back(SteadyClock().now_ns());
  }
  const uint64_t count = ends_ns.size();
  out.put(&count, sizeof count);
  out.put(ends_ns.data(), count * sizeof(int64_t));
}

// Forked before this process uses gRPC; ends with it.
class WorkerProcess {
 public:
  WorkerProcess(const UpdatesBench& bench, int id) {
    process_ = ::fork();
    if (process_ != 0) {
      ::close(out_.ends[1]);
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      work(bench, id, go_, out_);
    } catch (const Error& failure) {
      fmt::print(stderr, "worker {}: {}\n", id, failure.what());
      ::_exit(static_cast<int>(failure.exit_code()));
    }
    ::_exit(0);
  }
  ~WorkerProcess() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void wait_until_ready() const {
    char ready = 0;
    out_.get(&ready, 1);
  }
  void start(int64_t until_ns) const { go_.put(&until_ns, sizeof until_ns); }
  std::vector<int64_t> ends_ns() const {
    uint64_t count = 0;
    out_.get(&count, sizeof count);
    std::vector<int64_t> times(count);
    out_.get(times.data(), count * sizeof(int64_t));
    return times;
  }

 private:
  BenchPipe go_, out_;
  pid_t process_ = -1;
};

void work_all(const UpdatesBench& bench) {
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  for (int id = 0; id < bench.workers; ++id) workers.push_back(std::make_unique<WorkerProcess>(bench, id));
  for (const auto& worker : workers) worker->wait_until_ready();
  const int64_t until_ns = SteadyClock().now_ns() + static_cast<int64_t>(bench.seconds * 1e9);
  for (const auto& worker : workers) worker->start(until_ns);

  int64_t begin_ns = 0, end_ns = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> all_ns;
  for (const auto& worker : workers) {
    const std::vector<int64_t> times = worker->ends_ns();
    begin_ns = std::max(begin_ns, times.front());
    end_ns = std::min(end_ns, times.back());
    all_ns.insert(all_ns.end(), times.begin(), times.end());
  }
  const auto updates =
      std::ranges::count_if(all_ns, [&](int64_t time_ns) { return time_ns > begin_ns && time_ns <= end_ns; });
  const double seconds = seconds_between(begin_ns, end_ns);
  fmt::print("{}\n", nlohmann::json{{"workers", bench.workers},
                                    {"megabytes", bench.megabytes},
                                    {"updates", updates},
                                    {"seconds", seconds},
                                    {"updates_per_s", seconds > 0 ? static_cast<double>(updates) / seconds : 0},
                                    {"updates_with_warm_up", all_ns.size() + workers.size()}}
                         .dump());
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  using namespace paceline;
  UpdatesBench bench;
  CLI::App app("Updates per second of a parameter server, with workers on another host");
  auto* roles = app.add_option_group("role");
  roles->add_option("--serve", bench.serve, "be the server, here");
  roles->add_option("--work", bench.work, "be the workers of the server there");
  roles->require_option(1);
  app.add_option("--megabytes", bench.megabytes, "of the model");
  app.add_option("--workers", bench.workers)->check(CLI::Range(1, 64));
  app.add_option("--seconds", bench.seconds);
  app.add_option("--apart", bench.apart, "seconds from one worker's beginning to the next one's");
  CLI11_PARSE(app, argc, argv);
  try {
    bench.serve.empty() ? work_all(bench) : serve(bench);
  } catch (const Error& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return static_cast<int>(failure.exit_code());
  }
}
