// Servers that are killed while workers train: the run goes on, and its numbers are those of one that was not
// disturbed.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <latch>

#include "paceline/core/random.h"
#include "paceline/ps/test_grpc_tsan.h"
#include "paceline/ps/test_run.h"

namespace paceline {
namespace {

// A process that never uses gRPC and starts and kills those that do: one with gRPC's threads must not fork.
class Launcher {
 public:
  explicit Launcher(std::function<void(int run, int shard)> serve) {
    int there[2], back[2];
    if (::pipe(there) != 0 || ::pipe(back) != 0) throw FileError("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(there[1]);
      ::close(back[0]);
      obey(there[0], back[1], serve);
    }
    ::close(there[0]);
    ::close(back[1]);
    to_ = there[1];
    from_ = back[0];
  }
  ~Launcher() {
    ::close(to_);
    ::close(from_);
    ::waitpid(process_, nullptr, 0);
  }
  void start(int run, int shard) { order({'s', run, shard}); }
  void kill(int shard) { order({'k', 0, shard}); }
  int wait(int shard) { return order({'w', 0, shard}); }  // for its end; the status

 private:
  struct Order {
    char what;
    int run, shard;
  };
  int order(const Order& order) {
    int answer = -1;
    EXPECT_EQ(::write(to_, &order, sizeof(order)), static_cast<ssize_t>(sizeof(order)));
    EXPECT_EQ(::read(from_, &answer, sizeof(answer)), static_cast<ssize_t>(sizeof(answer)));
    return answer;
  }
  [[noreturn]] static void obey(int from, int to, const std::function<void(int, int)>& serve) {
    std::map<int, pid_t> servers;
    Order order;
    while (::read(from, &order, sizeof(order)) == sizeof(order)) {
      int answer = 0;
      if (order.what == 's') {
        const pid_t child = ::fork();
        if (child == 0) {
          ::prctl(PR_SET_PDEATHSIG, SIGKILL);
          serve(order.run, order.shard);
          ::_exit(0);
        }
        servers[order.shard] = child;
      } else {
        if (order.what == 'k') ::kill(servers[order.shard], SIGKILL);
        ::waitpid(servers[order.shard], &answer, 0);
      }
      if (::write(to, &answer, sizeof(answer)) != sizeof(answer)) break;
    }
    for (const auto& [shard, child] : servers) ::kill(child, SIGKILL);
    ::_exit(0);
  }

  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
};

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&at), size), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size), 0);
  ::close(socket);
  return ntohs(at.sin_port);
}

struct Plan {
  ToyRun run;
  std::vector<std::string> addresses;
};

void serve(const Plan& plan, int shard) {
  try {
    ServerOptions options = plan.run.server(shard, plan.addresses[0]);
    options.listen = plan.addresses[static_cast<size_t>(shard)];
    ParameterServer server(options, plan.run.initial(shard));
    server.wait(std::stop_token());
  } catch (const std::exception& failure) {
    fmt::print(stderr, "server {}: {}\n", shard, failure.what());
    ::_exit(3);
  }
}

// Trains with servers that are processes; `kills`: which shards are killed, one after the other, at seeded moments.
std::vector<float> train(Launcher& launcher, int number, const Plan& plan, const std::vector<std::vector<int>>& kills) {
  const ToyRun& run = plan.run;
  for (int shard = 0; shard < run.shards; ++shard) launcher.start(number, shard);
  ServerObserver observer(run.worker(0, plan.addresses));
  std::mutex mutex;
  std::condition_variable pushed;
  uint64_t pushes = 0;
  UsedSamples used;
  std::latch seen(1);
  std::vector<std::thread> workers;
  std::vector<ServerWorker::Costs> costs(static_cast<size_t>(run.workers));
  for (int id = 0; id < run.workers; ++id) {
    workers.emplace_back([&, id] {
      try {
        costs[static_cast<size_t>(id)] = work(
            run, run.worker(id, plan.addresses), &used,
            [&](ServerWorker&, const Assignment&, std::span<const float>) {
              const std::lock_guard lock(mutex);
              ++pushes;
              pushed.notify_all();
            },
            [&] { seen.wait(); });  // servers go when everybody has left
      } catch (const std::exception& failure) {
        ADD_FAILURE() << failure.what();
      }
    });
  }
  const RandomKey key(static_cast<uint64_t>(number) + 11);
  const uint64_t all = run.steps * static_cast<uint64_t>(run.workers);
  for (uint64_t kill = 0; kill < kills.size(); ++kill) {
    {
      std::unique_lock lock(mutex);
      pushed.wait(lock, [&] { return pushes >= 1 + kill * (all - 10) / kills.size(); });
    }
    std::this_thread::sleep_for(
        std::chrono::microseconds(key.below(kill, 6'000)));  // the moment, not a wait for something
    for (const int shard : kills[kill]) launcher.kill(shard);
    for (const int shard : kills[kill]) launcher.start(number, shard);
  }
  ServerSnapshot end;
  try {
    do {
      end = observer.observe({.weights = true});
    } while (!end.over);
  } catch (const PeerError& failure) {
    ADD_FAILURE() << failure.what();
  }
  seen.count_down();
  for (std::thread& worker : workers) worker.join();
  EXPECT_TRUE(end.over);
  EXPECT_EQ(end.version, run.steps);
  used.expect_once(run.samples());
  uint64_t reconnects = 0;
  for (const auto& cost : costs) reconnects += cost.reconnects;
  EXPECT_GE(reconnects, kills.size());
  return end.states.at("weights");
}

TEST(ServerCrash, KilledServersGoOnWhereTheyWere) {
  const MemoryFolder folder;
  std::vector<Plan> plans;
  for (const std::string optimizer : {"sgd", "lars"}) {
    for (int disturbed = 0; disturbed < 2; ++disturbed) {
      Plan plan;
      plan.run.shards = 3;
      plan.run.steps = 60;
      plan.run.update.optimizer = optimizer;
      plan.run.update.weight_decay = 0.01;
      if (optimizer == "lars") plan.run.update.eta = 0.1;
      plan.run.folder = folder.path() / (optimizer + std::to_string(disturbed));
      for (int shard = 0; shard < plan.run.shards; ++shard) {
        plan.addresses.push_back(fmt::format("127.0.0.1:{}", free_port()));
      }
      plans.push_back(plan);
    }
  }
  Launcher launcher([&](int run, int shard) { serve(plans[static_cast<size_t>(run)], shard); });
  for (int pair = 0; pair < 2; ++pair) {
    SCOPED_TRACE(plans[static_cast<size_t>(2 * pair)].run.update.optimizer);
    std::vector<std::vector<float>> ends;
    for (int disturbed = 0; disturbed < 2; ++disturbed) {
      const int number = 2 * pair + disturbed;
      std::vector<std::vector<int>> kills;
#ifdef __SANITIZE_THREAD__
      if (disturbed == 1) kills = {{1}, {0}, {0, 1, 2}};  // to start a server takes half a second
#else
      if (disturbed == 1) kills = {{1}, {0}, {2}, {0}, {0, 1}, {1, 2}, {0}, {0, 1, 2}};
#endif
      ends.push_back(train(launcher, number, plans[static_cast<size_t>(number)], kills));
      for (int shard = 0; shard < 3; ++shard) EXPECT_EQ(launcher.wait(shard), 0) << shard;
    }
    expect_same_bits(ends[0], ends[1]);
  }
}

}  // namespace
}  // namespace paceline
