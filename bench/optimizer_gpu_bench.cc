// One update of eight ResNet-50s' parameters (205 M) on a GPU: ours, a triad that moves as many bytes, and torch's.
//
//   optimizer_gpu_bench [--copies N] [--rounds R] [--json FILE]
//
// fused: at::_fused_sgd_, what PyTorch runs with fused=True. foreach: its operations over lists, as with foreach=True.
// All contenders take turns in every round, one behind the other on one stream, so that the device never waits for the
// host; times are those of CUDA events, medians.
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/device_triad.h"
#include "bench/resnet50_shapes.h"
#include "paceline/core/check.h"
#include "paceline/core/file.h"
#include "paceline/optim/adam.h"
#include "paceline/optim/lars.h"
#include "paceline/optim/sgd.h"

namespace paceline {
namespace {

constexpr double kRate = 1e-6, kMomentum = 0.9, kDecay = 1e-4;

void check(cudaError_t status) { CHECK_TRUE(status == cudaSuccess, "{}", cudaGetErrorString(status)); }

class Event {
 public:
  Event() { check(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record() { check(cudaEventRecord(event_, c10::cuda::getCurrentCUDAStream())); }
  double ms_since(const Event& start) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.event_, event_));
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

struct Contender {
  std::string name;
  int64_t bytes;  // that it has to move
  std::function<void()> step;
  Event begin = {}, end = {};
  std::vector<double> ms = {};

  Contender(std::string name, int64_t bytes, std::function<void()> step)
      : name(std::move(name)), bytes(bytes), step(std::move(step)) {}
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int bench(int copies, int rounds, const std::string& json) {
  if (!torch::cuda::is_available()) {
    fmt::print("no GPU: nothing was measured\n");
    return 0;
  }
  const torch::NoGradGuard no_grad;
  const auto options = torch::TensorOptions(torch::kCUDA);
  std::vector<Parameter> parameters;
  std::vector<torch::Tensor> weights, gradients, momentum;
  int64_t count = 0;
  for (int copy = 0; copy < copies; ++copy) {
    for (const auto& shape : resnet50_shapes()) {
      torch::Tensor tensor = torch::randn(shape, options);
      tensor.mutable_grad() = torch::randn(shape, options);
      parameters.push_back({fmt::format("p{}", parameters.size()), tensor, shape.size() > 1});
      weights.push_back(tensor);
      gradients.push_back(tensor.grad());
      momentum.push_back(torch::zeros_like(tensor));
      count += tensor.numel();
    }
  }
  const StepCoefficients c = {.rate = kRate, .momentum = kMomentum};
  Sgd sgd(parameters, {.weight_decay = kDecay});
  Lars lars(parameters, {.weight_decay = kDecay});
  Adam adam(parameters, {.weight_decay = kDecay});
  const int64_t sgd_bytes = 20 * count, lars_bytes = 28 * count, adam_bytes = 28 * count;
  const int64_t triad_elements = sgd_bytes / 12 / 4 * 4;
  torch::Tensor a = torch::zeros({triad_elements}, options), b = torch::ones_like(a), d = torch::ones_like(a);
  const auto triad = [&] {
    device_triad(a.data_ptr<float>(), b.data_ptr<float>(), d.data_ptr<float>(), triad_elements,
                 c10::cuda::getCurrentCUDAStream());
    check(cudaGetLastError());
  };

  std::deque<Contender> contenders;
  contenders.emplace_back("triad", 12 * triad_elements, triad);
  contenders.emplace_back("sgd", sgd_bytes, [&] { sgd.step(c); });
  contenders.emplace_back("lars", lars_bytes, [&] { lars.step(c); });
  contenders.emplace_back("adam", adam_bytes, [&] { adam.step(c); });
  contenders.emplace_back("sgd, torch fused", sgd_bytes, [&] {
    at::_fused_sgd_(weights, gradients, momentum, kDecay, kMomentum, kRate, 0, false, false, false);
  });
  contenders.emplace_back("sgd, torch foreach", sgd_bytes, [&] {
    const std::vector<torch::Tensor> g = at::_foreach_add(gradients, weights, kDecay);
    at::_foreach_mul_(momentum, kMomentum);
    at::_foreach_add_(momentum, g);
    at::_foreach_add_(weights, momentum, -kRate);
  });
  for (int round = -3; round < rounds; ++round) {  // three to warm up
    triad();                                       // not measured: the host gets ahead
    for (Contender& contender : contenders) {
      contender.begin.record();
      contender.step();
      contender.end.record();
    }
    check(cudaDeviceSynchronize());
    if (round < 0) continue;
    for (Contender& contender : contenders) contender.ms.push_back(contender.end.ms_since(contender.begin));
  }

  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  fmt::print("{}: {} parameters in {} tensors, medians of {} rounds\n", properties.name, count, parameters.size(),
             rounds);
  fmt::print("{:<20}{:>10}{:>10}{:>10}{:>10}\n", "", "ms", "GB/s", "of triad", "least ms");
  nlohmann::json report = {{"device", properties.name}, {"parameters", count}, {"rounds", rounds}};
  double triad_speed = 0;
  for (const Contender& contender : contenders) {
    const double ms = median(contender.ms), speed = 1e-6 * static_cast<double>(contender.bytes) / ms;
    if (triad_speed == 0) triad_speed = speed;
    fmt::print("{:<20}{:>10.3f}{:>10.0f}{:>9.1f}%{:>10.3f}\n", contender.name, ms, speed, 100 * speed / triad_speed,
               *std::ranges::min_element(contender.ms));
    report[contender.name] = {{"ms", contender.ms}, {"bytes", contender.bytes}, {"of_triad", speed / triad_speed}};
  }
  if (!json.empty()) replace_file(json, report.dump() + "\n");
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  int copies = 8, rounds = 51;
  std::string json;
  CLI::App app("One update of ResNet-50's parameters on a GPU, beside the memory it moves and torch's own");
  app.add_option("--copies", copies, "How many ResNet-50s")->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  app.add_option("--json", json, "Also write all times to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return paceline::bench(copies, rounds, json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "optimizer_gpu_bench: %s\n", error.what());
    return 1;
  }
}
