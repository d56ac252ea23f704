// The parameter server's transport between two processes of this machine: how fast bulk data goes, how many small
// messages are answered.
//
//   transport_bench [--body BYTES]... [--bytes N] [--connections N] [--messages N] [--tls] [--address HOST:PORT]
//
// Starts itself once more as the server (--role server), and prints a row of JSON per measurement. push: bodies of one
// size go to the server until `bytes` are there, which it confirms; pull: the same the other way. small: 4 KB messages,
// each answered by a few bytes, one under way on each connection; with the CPU time of the server's process per
// message.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/ps/certificates.h"
#include "paceline/ps/transport.h"

namespace paceline {
namespace {

constexpr int64_t kPatienceMs = 60'000;
constexpr size_t kSmallBytes = 4096;

struct BenchOptions {
  std::string role = "client", address = "127.0.0.1:0", certificates;
  std::vector<size_t> bodies = {64 << 10, 256 << 10, 1 << 20, 4 << 20};
  size_t bytes = 100'000'000;
  int connections = 32, messages = 32'000, threads = 1;
  bool tls = false;
};

const TransportLimits kLimits = {.queued_bytes = size_t{1} << 30};

Body shared_body(size_t bytes) {
  const auto memory = std::make_shared<std::vector<std::byte>>(bytes, std::byte{1});
  return {std::span<const std::byte>(*memory), memory};
}

double cpu_us() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

TransportSecurity security_from(const std::string& folder, bool server) {
  if (folder.empty()) return {};
  const CertificateFiles files = certificate_files(folder);
  return {.authority_pem = read_file(files.authority),
          .certificate_pem = read_file(server ? files.server : files.client),
          .key_pem = read_file(server ? files.server_key : files.client_key)};
}

// Answers "last" and "small" with a short message, "cpu" with its CPU time, "pull COUNT BYTES" with as many bodies.
class BenchHandler : public ConnectionHandler {
 public:
  void opened(const std::shared_ptr<Connection>&) override {}
  void received(const std::shared_ptr<Connection>& connection, Message message) override {
    if (message.head == "small" || message.head == "last") {
      connection->send({"done", {}});
    } else if (message.head == "cpu") {
      connection->send({fmt::format("{}", cpu_us()), {}});
    } else if (size_t count = 0, bytes = 0; std::sscanf(message.head.c_str(), "pull %zu %zu", &count, &bytes) == 2) {
      const Body body = shared_body(bytes);
      for (size_t i = 0; i < count; ++i) connection->send({"part", body});
    }
  }
  void closed(const std::shared_ptr<Connection>&, const std::string&) override {}
};

void run_server(const BenchOptions& options) {
  BenchHandler handler;
  const auto server =
      serve(options.address, security_from(options.certificates, true), kLimits, handler, options.threads);
  fmt::print("{}\n", server->address());
  std::fflush(stdout);
  char ignored = 0;
  while (read(STDIN_FILENO, &ignored, 1) > 0) {
  }  // until the client's process is gone
}

// The server's process: its address comes from its standard output, its end with the end of its standard input.
class ServerProcess {
 public:
  explicit ServerProcess(const BenchOptions& options) {
    int to_server[2], from_server[2];
    if (pipe(to_server) != 0 || pipe(from_server) != 0) throw PeerError("no pipes");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to_server[0], STDIN_FILENO);
      dup2(from_server[1], STDOUT_FILENO);
      close(to_server[1]);
      close(from_server[0]);
      const std::string threads = std::to_string(options.threads);
      execl("/proc/self/exe", "transport_bench", "--role", "server", "--address", options.address.c_str(), "--threads",
            threads.c_str(), "--certificates", options.certificates.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    close(to_server[0]);
    close(from_server[1]);
    stdin_ = to_server[1];
    char next = 0;
    while (read(from_server[0], &next, 1) == 1 && next != '\n') address_ += next;
    close(from_server[0]);
    if (address_.empty()) throw PeerError("the server did not start");
  }
  ~ServerProcess() {
    close(stdin_);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = 0;
  int stdin_ = -1;
  std::string address_;
};

double server_cpu_us(ClientConnection& client) {
  client.send({"cpu", {}});
  return std::stod(client.receive(kPatienceMs).head);
}

template <class Work>
nlohmann::json timed(ClientConnection& client, const char* mode, Work work) {
  const double cpu_before = server_cpu_us(client);
  const SteadyClock clock;
  const int64_t begin_ns = clock.now_ns();
  work();
  const double seconds = seconds_between(begin_ns, clock.now_ns());
  return {{"mode", mode}, {"seconds", seconds}, {"server_cpu_us", server_cpu_us(client) - cpu_before}};
}

void bulk(ClientConnection& client, const BenchOptions& options, size_t body_bytes) {
  const size_t count = (options.bytes + body_bytes - 1) / body_bytes;
  const Body body = shared_body(body_bytes);
  const auto push = [&] {
    for (size_t i = 0; i < count; ++i) client.send({i + 1 < count ? "part" : "last", body});
    client.receive(kPatienceMs);
  };
  const auto pull = [&] {
    client.send({fmt::format("pull {} {}", count, body_bytes), {}});
    for (size_t i = 0; i < count; ++i) client.receive(kPatienceMs);
  };
  push();  // warm-up
  pull();
  for (nlohmann::json row : {timed(client, "push", push), timed(client, "pull", pull)}) {
    row["body_bytes"] = body_bytes;
    row["tls"] = options.tls;
    row["gbit_per_s"] = static_cast<double>(count * body_bytes) * 8e-9 / row["seconds"].get<double>();
    fmt::print("{}\n", row.dump());
  }
}

void small(const std::string& address, const BenchOptions& options) {
  std::vector<std::unique_ptr<ClientConnection>> clients;
  for (int i = 0; i < options.connections; ++i) {
    clients.push_back(connect(address, security_from(options.certificates, false), kLimits));
  }
  const Body body = shared_body(kSmallBytes);
  const auto exchange = [&](int messages) {
    for (const auto& client : clients) client->send({"small", body});
    for (int n = 0; n < messages; ++n) {
      ClientConnection& client = *clients[n % clients.size()];
      client.receive(kPatienceMs);
      if (n + options.connections < messages) client.send({"small", body});
    }
  };
  exchange(options.messages / 8);
  nlohmann::json row = timed(*clients.front(), "small", [&] { exchange(options.messages); });
  row["tls"] = options.tls;
  row["connections"] = options.connections;
  row["messages_per_s"] = options.messages / row["seconds"].get<double>();
  row["server_cpu_us_per_message"] = row["server_cpu_us"].get<double>() / options.messages;
  fmt::print("{}\n", row.dump());
}

void run_client(BenchOptions options) {
  std::filesystem::path folder;
  if (options.tls) {
    std::string name = std::filesystem::temp_directory_path() / "transport-bench-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw FileError("cannot create " + name);
    make_certificates(folder = name, {});
    options.certificates = name;
  }
  {
    const ServerProcess server(options);
    if (options.bytes > 0) {
      const auto client = connect(server.address(), security_from(options.certificates, false), kLimits);
      for (const size_t bytes : options.bodies) bulk(*client, options, bytes);
    }
    if (options.messages > 0) small(server.address(), options);
  }
  if (!folder.empty()) std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::BenchOptions options;
  CLI::App app("The parameter server's transport between two processes");
  app.add_option("--role", options.role, "client (starts a server), server");
  app.add_option("--address", options.address, "where to serve");
  app.add_option("--body", options.bodies, "bytes of a body; may be given several times");
  app.add_option("--bytes", options.bytes, "how much is pushed and pulled; 0: nothing");
  app.add_option("--connections", options.connections, "with small messages");
  app.add_option("--messages", options.messages, "small messages in all; 0: none");
  app.add_option("--threads", options.threads, "of the server");
  app.add_option("--certificates", options.certificates, "a folder of 'paceline certs', for the server");
  app.add_flag("--tls", options.tls, "with certificates on both sides");
  CLI11_PARSE(app, argc, argv);
  try {
    options.role == "server" ? paceline::run_server(options) : paceline::run_client(options);
  } catch (const paceline::Error& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return static_cast<int>(failure.exit_code());
  }
}
