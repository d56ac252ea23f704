// A parameter server's update of 25 M parameters that a kill at any moment does not harm, beside the memory it moves.
//
//   server_update_bench [--count N] [--rounds R] [--threads T] [--folder DIR] [--json FILE]
//
// step: Shard::execute of a step, from the mean to the new weights, with its undo; mean: of a second gradient that
// joins the mean. triad: a[i] = a[i] + s·b[i] over arrays of so many elements that it moves the same bytes, on as many
// threads, in place as updates are. Both take turns in every round; medians, of ratios of neighbours in time.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "paceline/core/clock.h"
#include "paceline/core/file.h"
#include "paceline/kernels/dispatch.h"
#include "paceline/ps/shard.h"

namespace paceline {
namespace {

struct BenchOptions {
  uint64_t count = 25'000'000;
  int rounds = 15;
  int threads = 1;
  std::string folder = "/dev/shm";
  std::string json;
};

PACELINE_VECTORISED void triad(float* __restrict a, const float* __restrict b, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) a[i] = a[i] + 1e-6f * b[i];
}

// Moves the bytes of `parameters` parameters at `bytes_each`; a triad reads 8 and writes 4 for an element.
class Triad {
 public:
  Triad(uint64_t parameters, uint64_t bytes_each, int threads)
      : a_(parameters * bytes_each / 12, 0.0f), b_(a_.size(), 1.0f), threads_(static_cast<uint64_t>(threads)) {}
  void step() {
    std::vector<std::thread> others;
    const auto part = [&](uint64_t thread) {
      const uint64_t begin = a_.size() * thread / threads_, end = a_.size() * (thread + 1) / threads_;
      triad(a_.data() + begin, b_.data() + begin, end - begin);
    };
    for (uint64_t thread = 1; thread < threads_; ++thread) others.emplace_back(part, thread);
    part(0);
    for (std::thread& other : others) other.join();
  }

 private:
  std::vector<float> a_, b_;
  uint64_t threads_;
};

// A server with one shard; its file goes with it.
class Server {
 public:
  Server(const BenchOptions& options, const std::string& optimizer)
      : path_(std::filesystem::path(options.folder) / fmt::format("server_update_bench.{}.{}", ::getpid(), optimizer)),
        shard_(path_, ShardMap({{"weights", options.count, true}}, 1), 0,
               {.optimizer = optimizer, .weight_decay = 1e-4, .most_workers = 2, .threads = options.threads},
               std::vector<float>(options.count, 0.5f)) {
    for (int worker = 0; worker < 2; ++worker) std::ranges::fill(shard_.stage(worker, 1), 1e-3f);
  }
  ~Server() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  void accumulate(int worker) {
    shard_.stage(worker, round_);
    shard_.staged(worker, round_);
    execute({.kind = Decision::Kind::accumulate, .worker = worker, .version = shard_.version(), .samples = 32});
  }
  void step() {
    execute({.kind = Decision::Kind::step, .version = shard_.version() + 1, .samples = 64, .rate = 1e-6});
    ++round_;
  }

 private:
  void execute(const Decision& decision) {
    shard_.execute({.index = shard_.executed() + 1, .sequence = round_, .decision = decision});
  }

  std::filesystem::path path_;
  Shard shard_;
  uint64_t round_ = 1;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void bench(const BenchOptions& options) {
  Server sgd(options, "sgd"), progressive(options, "progressive");
  constexpr uint64_t kStepBytes = 20, kMeanBytes = 12;  // per parameter: kernels/sgd.h, kernels/running_mean.h
  Triad step_triad(options.count, kStepBytes, options.threads), mean_triad(options.count, kMeanBytes, options.threads);
  struct Contender {
    std::string name;
    uint64_t bytes;
    std::function<void()> before, ours, triad;
    std::vector<double> ms = {}, triad_ms = {};
  };
  std::vector<Contender> contenders = {
      {"mean", kMeanBytes, [&] { sgd.accumulate(0); }, [&] { sgd.accumulate(1); }, [&] { mean_triad.step(); }},
      {"sgd step", kStepBytes, [] {}, [&] { sgd.step(); }, [&] { step_triad.step(); }},
      {"progressive step", kStepBytes, [&] { progressive.accumulate(0), progressive.accumulate(1); },
       [&] { progressive.step(); }, [&] { step_triad.step(); }},
  };
  const SteadyClock clock;
  const auto time_ms = [&](const std::function<void()>& body) {
    const int64_t from_ns = clock.now_ns();
    body();
    return 1e3 * seconds_between(from_ns, clock.now_ns());
  };
  for (int round = -2; round < options.rounds; ++round) {  // two to warm up
    for (Contender& contender : contenders) {
      contender.before();
      double ours_ms, triad_ms;
      if (round % 2 == 0) {
        ours_ms = time_ms(contender.ours);
        triad_ms = time_ms(contender.triad);
      } else {
        triad_ms = time_ms(contender.triad);
        ours_ms = time_ms(contender.ours);
      }
      if (round < 0) continue;
      contender.ms.push_back(ours_ms);
      contender.triad_ms.push_back(triad_ms);
    }
  }

  nlohmann::json report = {{"parameters", options.count}, {"threads", options.threads}, {"rounds", options.rounds}};
  fmt::print("{} parameters, {} threads, medians of {} rounds\n", options.count, options.threads, options.rounds);
  fmt::print("{:<18}{:>10}{:>10}{:>10}{:>12}\n", "", "ms", "GB/s", "triad ms", "of triad");
  for (const Contender& contender : contenders) {
    std::vector<double> of_triad;
    for (size_t i = 0; i < contender.ms.size(); ++i) of_triad.push_back(contender.triad_ms[i] / contender.ms[i]);
    const double ms = median(contender.ms);
    fmt::print("{:<18}{:>10.2f}{:>10.1f}{:>10.2f}{:>12.2f}\n", contender.name, ms,
               1e-6 * static_cast<double>(options.count * contender.bytes) / ms, median(contender.triad_ms),
               median(of_triad));
    report[contender.name] = {{"ms", contender.ms}, {"triad_ms", contender.triad_ms}, {"of_triad", median(of_triad)}};
  }
  if (!options.json.empty()) replace_file(options.json, report.dump() + "\n");
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::BenchOptions options;
  CLI::App app("A parameter server's update, beside the memory it moves");
  app.add_option("--count", options.count, "Parameters")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--folder", options.folder, "Where the state lies");
  app.add_option("--json", options.json, "Also write all times to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    paceline::bench(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "server_update_bench: %s\n", error.what());
    return 1;
  }
}
