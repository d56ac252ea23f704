// ps-lite's parameter server, measured as server_bench measures ours: 100 MB pushed and pulled, and 4 KB pushes.
//
//   DMLC_ROLE=scheduler|server|worker ... ps_lite_bench MEGABYTES ROUNDS PUSHES UNDER_WAY
//
// bench/server.py starts the processes: a scheduler, a server, one worker or several. A push carries a gradient, the
// server makes a step of SGD with momentum, and its answer carries the new parameters (KVWorker::ZPushPull). The server
// answers with a copy of its parameters, as it must when another worker's push may come meanwhile; the copies lie
// ready. Small: PUSHES in all, UNDER_WAY of them at a time on the one connection that a worker of ps-lite has. Bulk:
// the first worker alone. It prints a row of JSON for each, as server_bench does. No megabytes or no pushes: that one
// is left out.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <vector>

#include "ps/ps.h"

namespace {

constexpr int kUpdate = 0, kCpuTime = 1;  // commands of a request
constexpr size_t kSmallElements = 1024;
constexpr ps::Key kBulkKey = 0, kSmallKey = 1;

struct PeerBench {
  size_t megabytes = 100;
  int rounds = 8, pushes = 32'000, under_way = 32;
};

double process_cpu_s() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// One tensor with its momentum, and as many copies of it as may be on their way.
class PeerTensor {
 public:
  PeerTensor(size_t elements, int copies)
      : weights_(elements, 0.5f), momentum_(elements, 0), copies_(static_cast<size_t>(copies), weights_) {}

  void update(const float* gradient) {
    constexpr float kRate = 1e-3f, kMomentum = 0.9f;
    float* const weights = weights_.data();
    float* const momentum = momentum_.data();
    for (size_t i = 0; i < weights_.size(); ++i) {
      momentum[i] = kMomentum * momentum[i] + gradient[i];
      weights[i] -= kRate * momentum[i];
    }
  }
  ps::SArray<float> copy() {
    std::vector<float>& copy = copies_[next_++ % copies_.size()];
    std::memcpy(copy.data(), weights_.data(), copy.size() * sizeof(float));
    return {copy.data(), copy.size()};
  }

 private:
  std::vector<float> weights_, momentum_;
  std::vector<std::vector<float>> copies_;
  size_t next_ = 0;
};

void serve(const PeerBench& bench) {
  static PeerTensor bulk(bench.megabytes * 250'000, 2), small(kSmallElements, 2 * bench.under_way * ps::NumWorkers());
  auto* server = new ps::KVServer<float>(0);
  server->set_request_handle([](const ps::KVMeta& request, const ps::KVPairs<float>& data, ps::KVServer<float>* to) {
    ps::KVPairs<float> answer;
    answer.keys = data.keys;
    if (request.cmd == kCpuTime) {
      answer.vals.push_back(static_cast<float>(process_cpu_s()));
    } else {
      PeerTensor& tensor = data.keys[0] == kBulkKey ? bulk : small;
      tensor.update(data.vals.data());
      answer.vals = tensor.copy();
    }
    to->Response(request, answer);
  });
  ps::RegisterExitCallback([server] { delete server; });
}

double server_cpu_s(ps::KVWorker<float>& worker) {
  std::vector<float> seconds;
  worker.Wait(worker.Pull({kSmallKey}, &seconds, nullptr, kCpuTime));
  return seconds.at(0);
}

void bulk(ps::KVWorker<float>& worker, const PeerBench& bench) {
  const size_t elements = bench.megabytes * 250'000;
  const ps::SArray<ps::Key> keys(std::vector<ps::Key>{kBulkKey});
  const ps::SArray<float> gradient(elements, 1e-3f);
  ps::SArray<float> parameters(elements, 0);
  const auto push = [&] { worker.Wait(worker.ZPushPull(keys, gradient, &parameters, nullptr, kUpdate)); };
  push();
  const double cpu_before_s = server_cpu_s(worker), began_s = now_s();
  for (int round = 0; round < bench.rounds; ++round) push();
  const double seconds = (now_s() - began_s) / bench.rounds;
  std::printf(R"({"mode": "bulk", "megabytes": %zu, "seconds_per_push": %.6f, "gb_per_s": %.6f, "server_cpu_s": %.6f})"
              "\n",
              bench.megabytes, seconds, 2e-3 * static_cast<double>(bench.megabytes) / seconds,
              (server_cpu_s(worker) - cpu_before_s) / bench.rounds);
}

void small(ps::KVWorker<float>& worker, const PeerBench& bench) {
  const ps::SArray<ps::Key> keys(std::vector<ps::Key>{kSmallKey});
  const ps::SArray<float> gradient(kSmallElements, 1e-3f);
  std::vector<ps::SArray<float>> parameters(static_cast<size_t>(bench.under_way), ps::SArray<float>(kSmallElements, 0));
  for (auto& one : parameters) one = ps::SArray<float>(kSmallElements, 0);  // memory of its own for each
  const auto exchange = [&](int pushes) {
    std::deque<int> waiting;
    for (int n = 0; n < pushes + bench.under_way; ++n) {
      if (n >= bench.under_way) {
        worker.Wait(waiting.front());
        waiting.pop_front();
      }
      if (n < pushes) {
        auto& into = parameters[static_cast<size_t>(n % bench.under_way)];
        waiting.push_back(worker.ZPushPull(keys, gradient, &into, nullptr, kUpdate));
      }
    }
  };
  const auto wait_for_all = [] { ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup); };
  const int mine = bench.pushes / ps::NumWorkers(), pushes = mine * ps::NumWorkers();
  exchange(mine / 8 + bench.under_way);
  wait_for_all();
  const double cpu_before_s = server_cpu_s(worker), began_s = now_s();
  exchange(mine);
  wait_for_all();
  const double seconds = now_s() - began_s;
  if (ps::MyRank() != 0) return;
  std::printf(
      R"({"mode": "small", "workers": %d, "under_way": %d, "pushes_per_s": %.3f, "server_cpu_us_per_push": %.3f})"
      "\n",
      ps::NumWorkers(), bench.under_way, pushes / seconds, (server_cpu_s(worker) - cpu_before_s) * 1e6 / pushes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: ps_lite_bench MEGABYTES ROUNDS PUSHES UNDER_WAY\n");
    return 2;
  }
  const PeerBench bench = {.megabytes = static_cast<size_t>(std::atoll(argv[1])),
                           .rounds = std::atoi(argv[2]),
                           .pushes = std::atoi(argv[3]),
                           .under_way = std::atoi(argv[4])};
  if (bench.rounds < 1 || bench.under_way < 1) {
    std::fprintf(stderr, "ps_lite_bench: ROUNDS and UNDER_WAY must be at least 1\n");
    return 2;
  }
  // Not Start(), whose barrier ends before there is a server: with many workers a push may come before the server's own
  // news of the barrier, and ends it.
  ps::StartAsync(0);
  if (ps::IsServer()) serve(bench);
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);
  if (ps::IsWorker()) {
    ps::KVWorker<float> worker(0, 0);
    if (bench.pushes > 0) small(worker, bench);
    if (bench.megabytes > 0 && ps::MyRank() == 0) bulk(worker, bench);
    std::fflush(stdout);
  }
  ps::Finalize(0, true);
}
