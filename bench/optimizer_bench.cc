// One update of ResNet-50's 25.6 M parameters: ours, the memory it moves, and the same update as torch operations.
//
//   optimizer_bench [--threads N] [--rounds R] [--json FILE]
//
// triad: a[i] = a[i] + s·b[i] over arrays of so many elements that it moves the same bytes as the update, on as many
// threads; in place as updates are, so that nothing is read only to be overwritten (STREAM's own triad reads a, too).
// loop: a tensor after the other with torch's operations, as PyTorch's optimizers do with foreach=False. All contenders
// take turns in every round; medians.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/resnet50_shapes.h"
#include "paceline/core/clock.h"
#include "paceline/core/file.h"
#include "paceline/core/process_tuning.h"
#include "paceline/kernels/dispatch.h"
#include "paceline/optim/lars.h"
#include "paceline/optim/sgd.h"

namespace paceline {
namespace {

constexpr double kRate = 1e-6, kMomentum = 0.9, kDecay = 1e-4, kEta = 0.001;

std::vector<Parameter> make_parameters() {
  std::vector<Parameter> parameters;
  for (const auto& shape : resnet50_shapes()) {
    torch::Tensor weights = torch::randn(shape).requires_grad_();
    weights.mutable_grad() = torch::randn(shape);
    parameters.push_back({fmt::format("p{}", parameters.size()), weights, shape.size() > 1});
  }
  return parameters;
}

// PyTorch's SGD with foreach=False, operation by operation.
class SgdLoop {
 public:
  explicit SgdLoop(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
    for (const Parameter& parameter : parameters_) momentum_.push_back(torch::zeros_like(parameter.tensor));
  }
  void step() {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& w = parameters_[i].tensor;
      const torch::Tensor g = parameters_[i].decayed ? w.grad().add(w, kDecay) : w.grad();
      momentum_[i].mul_(kMomentum).add_(g);
      w.add_(momentum_[i], -kRate);
    }
  }

 private:
  std::vector<Parameter> parameters_;
  std::vector<torch::Tensor> momentum_;
};

// LARS written as one would in PyTorch: norms by torch::norm, the local rate on the host.
class LarsLoop {
 public:
  explicit LarsLoop(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
    for (const Parameter& parameter : parameters_) momentum_.push_back(torch::zeros_like(parameter.tensor));
  }
  void step() {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& w = parameters_[i].tensor;
      torch::Tensor g = w.grad();
      double rate = kRate;
      if (parameters_[i].decayed) {
        const double w_norm = w.norm().item<double>(), g_norm = g.norm().item<double>();
        rate *= kEta * w_norm / (g_norm + kDecay * w_norm);
        g = g.add(w, kDecay);
      }
      momentum_[i].mul_(kMomentum).add_(g, rate);
      w.sub_(momentum_[i]);
    }
  }

 private:
  std::vector<Parameter> parameters_;
  std::vector<torch::Tensor> momentum_;
};

PACELINE_VECTORISED void triad(float* __restrict a, const float* __restrict b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) a[i] = a[i] + 1e-6f * b[i];
}

// Moves the bytes of `parameters` parameters at `bytes_each`; a triad reads 8 and writes 4 for an element.
class Triad {
 public:
  Triad(int64_t parameters, int64_t bytes_each)
      : a_(torch::zeros({parameters * bytes_each / 12})), b_(torch::ones_like(a_)) {}
  void step() {
    at::parallel_for(0, a_.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
      triad(a_.data_ptr<float>() + begin, b_.const_data_ptr<float>() + begin, end - begin);
    });
  }

 private:
  torch::Tensor a_, b_;
};

struct Contender {
  std::string name;
  std::function<void()> step;
  std::vector<double> ms = {};
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void bench(int threads, int rounds, const std::string& json) {
  if (threads > 0) at::set_num_threads(threads);
  torch::manual_seed(1);
  const std::vector<Parameter> parameters = make_parameters();
  int64_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.tensor.numel();

  Sgd sgd(parameters, {.weight_decay = kDecay});
  Lars lars(parameters, {.eta = kEta, .weight_decay = kDecay});
  SgdLoop sgd_loop(parameters);
  LarsLoop lars_loop(parameters);
  constexpr int64_t kSgdBytes = 20, kLarsBytes = 28;  // per parameter: kernels/sgd.h, kernels/lars.h
  Triad sgd_triad(count, kSgdBytes), lars_triad(count, kLarsBytes);
  std::vector<Contender> contenders = {
      {"sgd", [&] { sgd.step({.rate = kRate, .momentum = kMomentum}); }},
      {"sgd triad", [&] { sgd_triad.step(); }},
      {"sgd loop", [&] { sgd_loop.step(); }},
      {"lars", [&] { lars.step({.rate = kRate, .momentum = kMomentum}); }},
      {"lars triad", [&] { lars_triad.step(); }},
      {"lars loop", [&] { lars_loop.step(); }},
  };
  const SteadyClock clock;
  for (int round = -2; round < rounds; ++round) {  // two to warm up
    for (size_t i = 0; i < contenders.size(); ++i) {
      Contender& contender = contenders[round % 2 == 0 ? i : contenders.size() - 1 - i];
      const int64_t from_ns = clock.now_ns();
      contender.step();
      if (round >= 0) contender.ms.push_back(1e3 * seconds_between(from_ns, clock.now_ns()));
    }
  }

  nlohmann::json report = {{"parameters", count}, {"threads", at::get_num_threads()}, {"rounds", rounds}};
  fmt::print("{} parameters in {} tensors, {} threads, medians of {} rounds\n", count, parameters.size(),
             at::get_num_threads(), rounds);
  fmt::print("{:<6}{:>10}{:>10}{:>10}{:>10}{:>12}{:>14}\n", "", "ms", "GB/s", "triad ms", "loop ms", "of triad",
             "times faster");
  for (size_t i = 0; i < contenders.size(); i += 3) {
    const int64_t bytes = count * (i == 0 ? kSgdBytes : kLarsBytes);
    std::vector<double> of_triad, of_loop;  // of neighbours in time, so that noise disturbs both
    for (size_t round = 0; round < contenders[i].ms.size(); ++round) {
      of_triad.push_back(contenders[i + 1].ms[round] / contenders[i].ms[round]);
      of_loop.push_back(contenders[i + 2].ms[round] / contenders[i].ms[round]);
    }
    const double ours = median(contenders[i].ms);
    fmt::print("{:<6}{:>10.2f}{:>10.1f}{:>10.2f}{:>10.2f}{:>11.0f}%{:>14.2f}\n", contenders[i].name, ours,
               1e-6 * static_cast<double>(bytes) / ours, median(contenders[i + 1].ms), median(contenders[i + 2].ms),
               100 * median(of_triad), median(of_loop));
    report[contenders[i].name] = {{"ms", contenders[i].ms},
                                  {"triad_ms", contenders[i + 1].ms},
                                  {"loop_ms", contenders[i + 2].ms},
                                  {"of_triad", median(of_triad)},
                                  {"times_faster_than_loop", median(of_loop)}};
  }
  if (!json.empty()) replace_file(json, report.dump() + "\n");
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::tune_process(argv);  // as the program does
  int threads = 0, rounds = 21;
  std::string json;
  CLI::App app("One update of ResNet-50's parameters, beside the memory it moves and torch's operations");
  app.add_option("--threads", threads, "0: one per core");
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  app.add_option("--json", json, "Also write all times to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    paceline::bench(threads, rounds, json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "optimizer_bench: %s\n", error.what());
    return 1;
  }
}
