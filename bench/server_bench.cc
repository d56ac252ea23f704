// A parameter server in a process of its own, asynchronous: how many small pushes it answers, how fast large ones go.
//
//   server_bench [--connections N] [--pushes N] [--megabytes N] [--rounds N] [--tls]
//
// small: gradients of 1024 elements (4 KB), each answered with an assignment and the new parameters, one under way on
// each connection; with the CPU time of the server's process per push. bulk: one worker pushes and pulls a model of
// `megabytes`, `rounds` times. --tls: certificates on both sides, made for this run. A row of JSON for each; no pushes
// or no megabytes: that one is left out.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench_server.h"
#include "paceline/core/clock.h"
#include "paceline/ps/server_call.h"
#include "paceline/ps/worker.h"

namespace paceline {
namespace {

constexpr int64_t kPatienceMs = 60'000;

struct ServerBench {
  int connections = 32, pushes = 32'000, rounds = 8;
  uint64_t megabytes = 100;
  bool tls = false;
  std::filesystem::path certificates;  // empty: plaintext
};

// Forked before this process uses gRPC.
class BenchServer {
 public:
  BenchServer(uint64_t elements, int workers, const std::filesystem::path& certificates) {
    int ends[2];
    if (::pipe(ends) != 0) throw FileError("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ServerOptions options = bench_server(elements, workers, folder_.path());
      options.security = bench_security(certificates, true);
      ParameterServer server(options, std::vector<float>(elements, 0.5f));
      const std::string address = server.address() + "\n";
      if (::write(ends[1], address.data(), address.size()) < 0) ::_exit(1);
      server.wait({});
      ::_exit(0);
    }
    ::close(ends[1]);
    char next = 0;
    while (::read(ends[0], &next, 1) == 1 && next != '\n') address_ += next;
    ::close(ends[0]);
    if (address_.empty()) throw PeerError("the server did not start");
  }
  ~BenchServer() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  const std::string& address() const { return address_; }
  double cpu_s() const {
    clockid_t clock = 0;
    timespec now = {};
    if (::clock_getcpuclockid(process_, &clock) != 0 || ::clock_gettime(clock, &now) != 0) return 0;
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }

 private:
  BenchFolder folder_{"/dev/shm"};
  pid_t process_ = -1;
  std::string address_;
};

// A worker without threads: the client's side must not be what is measured.
struct BareWorker {
  std::unique_ptr<ClientConnection> line;
  Assignment assignment;

  void receive() {
    for (bool told = false, whole = false; !told || !whole;) {
      const Head head = head_from(line->receive(kPatienceMs).head);
      if (const auto* go = std::get_if<GoHead>(&head)) {
        assignment = go->assignment;
        told = true;
      } else if (const auto* parameters = std::get_if<ParametersHead>(&head)) {
        whole = parameters->last;
      }
    }
  }
};

void small(const ServerBench& bench, const BenchServer& server) {
  constexpr uint64_t kElements = 1024;
  const auto gradient = std::make_shared<std::vector<float>>(kElements, 1e-3f);
  const Body body(std::as_bytes(std::span<const float>(*gradient)), gradient);
  const auto push = [&](BareWorker& worker) {
    const PushHead head = {.push = {.sequence = worker.assignment.sequence,
                                    .version = worker.assignment.version,
                                    .samples = 1,
                                    .rate = 1e-3},
                           .count = kElements,
                           .last = true};
    worker.line->send({to_wire(Head(head)), body});
  };
  const TransportSecurity security = bench_security(bench.certificates, false);
  std::vector<BareWorker> workers;
  for (int id = 0; id < bench.connections; ++id) {
    const HelloHead hello = {.id = id,
                             .incarnation = static_cast<uint64_t>(id) + 1,
                             .fingerprint = bench_map(kElements).fingerprint(),
                             .run = kBenchRun};
    uint64_t history = 0;
    workers.push_back({call_server(server.address(), 0, 1, security, {}, hello, history), {}});
    workers.back().line->send({to_wire(Head(JoinHead{})), {}});
    workers.back().receive();
  }
  const auto exchange = [&](int pushes) {
    for (BareWorker& worker : workers) push(worker);
    for (int n = 0; n < pushes; ++n) {
      BareWorker& worker = workers[static_cast<size_t>(n) % workers.size()];
      worker.receive();
      if (n + bench.connections < pushes) push(worker);
    }
  };
  exchange(bench.pushes / 8 / bench.connections * bench.connections);
  const double cpu_before_s = server.cpu_s();
  const int64_t began_ns = SteadyClock().now_ns();
  const int pushes = bench.pushes / bench.connections * bench.connections;
  exchange(pushes);
  const double seconds = seconds_between(began_ns, SteadyClock().now_ns());
  fmt::print("{}\n", nlohmann::json{{"mode", "small"},
                                    {"tls", bench.tls},
                                    {"connections", bench.connections},
                                    {"pushes_per_s", pushes / seconds},
                                    {"server_cpu_us_per_push", (server.cpu_s() - cpu_before_s) * 1e6 / pushes}}
                         .dump());
}

void bulk(const ServerBench& bench, const BenchServer& server) {
  const uint64_t elements = bench.megabytes * 250'000;
  ServerWorker worker({.servers = {server.address()},
                       .map = bench_map(elements),
                       .run = kBenchRun,
                       .security = bench_security(bench.certificates, false)});
  std::vector<float> parameters(elements);
  const std::vector<float> gradient(elements, 1e-3f);
  worker.join(parameters);
  worker.push(gradient, 1, 1e-3, parameters);
  const ServerWorker::Costs before = worker.costs();
  const double cpu_before_s = server.cpu_s();
  const int64_t began_ns = SteadyClock().now_ns();
  for (int round = 0; round < bench.rounds; ++round) worker.push(gradient, 1, 1e-3, parameters);
  const double seconds = seconds_between(began_ns, SteadyClock().now_ns()) / bench.rounds;
  const ServerWorker::Costs after = worker.costs();
  const auto per_round = [&](double s) { return s / bench.rounds; };
  fmt::print("{}\n", nlohmann::json{{"mode", "bulk"},
                                    {"tls", bench.tls},
                                    {"megabytes", bench.megabytes},
                                    {"seconds_per_push", seconds},
                                    {"gb_per_s", 2e-3 * static_cast<double>(bench.megabytes) / seconds},
                                    {"push_s", per_round(after.push_s - before.push_s)},
                                    {"wait_s", per_round(after.wait_s - before.wait_s)},
                                    {"pull_s", per_round(after.pull_s - before.pull_s)},
                                    {"server_cpu_s", per_round(server.cpu_s() - cpu_before_s)}}
                         .dump());
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  using namespace paceline;
  ServerBench bench;
  CLI::App app("The parameter server: small pushes, and large ones");
  app.add_option("--connections", bench.connections);
  app.add_option("--pushes", bench.pushes);
  app.add_option("--megabytes", bench.megabytes);
  app.add_option("--rounds", bench.rounds);
  app.add_flag("--tls", bench.tls, "with certificates on both sides");
  CLI11_PARSE(app, argc, argv);
  try {
    std::optional<BenchFolder> certificates;
    if (bench.tls) {
      certificates.emplace(std::filesystem::temp_directory_path());
      make_certificates(bench.certificates = certificates->path(), {});
    }
    std::optional<BenchServer> for_small, for_bulk;
    if (bench.pushes > 0) for_small.emplace(1024, bench.connections, bench.certificates);
    if (bench.megabytes > 0) for_bulk.emplace(bench.megabytes * 250'000, 1, bench.certificates);
    if (for_small) small(bench, *for_small);
    if (for_bulk) bulk(bench, *for_bulk);
  } catch (const Error& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return static_cast<int>(failure.exit_code());
  }
}
