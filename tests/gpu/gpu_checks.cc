// What runs on a GPU beside what defines right.
//
//   gpu_checks [optimizers | batch_norm | batches | steps]
//
// Prints one table, then some speeds, and ends with 1 when anything in the table failed. Without a GPU: "no GPU", and
// 0. Here: every optimizer's kernel beside the CPU's, the same step taken twice, and eager steps. Kernels without sums
// over a tensor must have the CPU's bits; LARS sums in another order.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <deque>

#include "batch_norm_checks.h"
#include "batches_checks.h"
#include "check_row.h"
#include "paceline/optim/optimizer.h"
#include "step_checks.h"

namespace paceline {
namespace {

constexpr int kSteps = 100;

struct Subject {
  std::string name, optimizer;
  double limit;  // the largest relative error allowed
  void (*adjust)(Recipe::Optimizer&) = [](Recipe::Optimizer&) {};

  std::unique_ptr<Optimizer> make(std::vector<Parameter> parameters, double warmup_epochs = 1) const {
    Recipe::Optimizer options;
    options.rate = 0.01;
    options.weight_decay = 1e-3;
    options.epsilon = 1e-8;
    options.hybrid_epochs = warmup_epochs;
    adjust(options);
    return builtin_optimizers().at(optimizer)(std::move(parameters), options);
  }
};

const std::vector<Subject> kSubjects = {
    {"sgd", "sgd", 0},
    {"sgd, nesterov", "sgd", 0, [](Recipe::Optimizer& o) { o.nesterov = true; }},
    {"sgd, averaged", "sgd", 0, [](Recipe::Optimizer& o) { o.average = 0.9; }},
    {"lars", "lars", 1e-6},
    {"lars, corrected", "lars", 1e-6, [](Recipe::Optimizer& o) { o.momentum_correction = true; }},
    {"adam", "adam", 0},
    {"adamw", "adamw", 0},
    {"rmsprop", "rmsprop", 0},
    {"adabound", "adabound", 0},
    {"hybrid", "hybrid", 1e-6},  // hands over to LARS at step 50
};

StepCoefficients coefficients(int step) {
  return {.rate = 0.01 * (1 - step / 200.0),
          .momentum = 0.9 - 0.001 * (step % 10),
          .gradient_scale = step % 5 == 0 ? 0.5 : 1,
          .epoch = step / 50.0};
}

// ---- Parameters -----------------------------------------------------------------------------------------------------

struct Shape {
  std::vector<int64_t> sizes;
  int64_t offset = 0;                        // elements between the beginning of an allocation and the tensor
  torch::Dtype gradients = torch::kFloat32;  // a half type: the model runs on half copies, and has their gradients
};

// A copy of `values` (on the CPU) that begins `offset` elements into its allocation.
torch::Tensor placed(const torch::Tensor& values, const torch::Device& device, int64_t offset) {
  torch::Tensor memory = torch::empty({values.numel() + offset}, values.options().device(device));
  return memory.slice(0, offset).copy_(values);
}

// The same numbers on whichever device. Every third tensor is not decayed.
class Network {
 public:
  Network(const Shape& shape, const torch::Device& device) : shape_(shape), device_(device) {
    torch::manual_seed(7);
    for (const int64_t size : shape.sizes) {
      const auto name = fmt::format("p{}", parameters.size());
      Parameter parameter = {name, placed(torch::randn({size}), device, shape.offset), parameters.size() % 3 != 2};
      if (is_half()) parameter.half = parameter.tensor.to(shape.gradients);
      parameters.push_back(std::move(parameter));
      for (auto& set : gradients_) {
        const torch::Tensor values =
            torch::randn({size}).to(shape.gradients);  // on the CPU the same, in single precision
        set.push_back(placed(device.is_cpu() ? values.to(torch::kFloat32) : values, device, 3 * shape.offset));
      }
    }
  }

  // `moved`: in memory of their own, so that addresses change.
  void set_gradients(int step, bool moved = false) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const torch::Tensor& gradient = gradients_[step % kSets][i];
      gradient_place(i) = moved ? gradient.clone() : gradient;
    }
  }

  // Into tensors that stay where they are: what a captured graph needs.
  void copy_gradients(int step, const std::vector<torch::Tensor>& to) const {
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(gradients_[step % kSets][i]);
  }

  torch::Tensor& gradient_place(size_t i) {
    return (is_half() && device_.is_cuda() ? parameters[i].half : parameters[i].tensor).mutable_grad();
  }

  bool is_half() const { return shape_.gradients != torch::kFloat32; }

  std::vector<Parameter> parameters;

 private:
  static constexpr int kSets = 3;

  Shape shape_;
  torch::Device device_;
  std::vector<torch::Tensor> gradients_[kSets];
};

// ---- Comparing ------------------------------------------------------------------------------------------------------

struct Row {
  std::string subject, check;
  double limit;
  int cases = 0;
  double error = 0;
  bool failed = false;

  void add(double found) {
    ++cases;
    if (!(found <= limit)) failed = true;  // NaN, too
    if (!(found <= error)) error = found;
  }

  // Everything that a step changes.
  void compare(const std::vector<Parameter>& parameters, const Optimizer& optimizer,
               const std::vector<Parameter>& expected, const Optimizer& expected_optimizer) {
    double most = 0;
    const auto compare_tensors = [&](const torch::Tensor& a, const torch::Tensor& b) {
      const double found = relative_error(a, b);
      if (!(found <= most)) most = found;
    };
    for (size_t i = 0; i < parameters.size(); ++i) {
      compare_tensors(parameters[i].tensor, expected[i].tensor);
      if (const torch::Tensor& half = parameters[i].half; half.defined()) {
        if (!torch::equal(half, parameters[i].tensor.to(half.scalar_type()))) most = NAN;
      }
    }
    const auto state = optimizer.state(), expected_state = expected_optimizer.state();
    if (state.size() != expected_state.size()) most = NAN;
    for (const auto& [name, tensor] : state) compare_tensors(tensor, expected_state.at(name));
    add(most);
  }

  static double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
    if (a.numel() == 0) return 0;
    const torch::Tensor x = a.detach().cpu().to(torch::kFloat64), y = b.detach().cpu().to(torch::kFloat64);
    const double scale = y.abs().max().item<double>();
    return (x - y).abs().max().item<double>() / (scale > 0 ? scale : 1);
  }
};

// ---- Checks ---------------------------------------------------------------------------------------------------------

void check_against_cpu(Row& row, const Subject& subject, const Shape& shape, bool moved = false) {
  Network on_cpu(shape, torch::kCPU), on_gpu(shape, torch::kCUDA);
  if (shape.gradients != torch::kFloat32) {
    for (Parameter& parameter : on_cpu.parameters)
      parameter.half = torch::Tensor();  // gradients of the weights themselves
  }
  const auto expected = subject.make(on_cpu.parameters), optimizer = subject.make(on_gpu.parameters);
  for (int step = 0; step < kSteps; ++step) {
    on_cpu.set_gradients(step);
    on_gpu.set_gradients(step, moved);
    expected->step(coefficients(step));
    optimizer->step(coefficients(step));
  }
  row.compare(on_gpu.parameters, *optimizer, on_cpu.parameters, *expected);
}

void check_missing_gradient(Row& row, const Subject& subject) {
  const Shape shape = {.sizes = {1000, 20'000, 5}};
  Network on_cpu(shape, torch::kCPU), on_gpu(shape, torch::kCUDA);
  const auto expected = subject.make(on_cpu.parameters), optimizer = subject.make(on_gpu.parameters);
  for (int step = 0; step < 9; ++step) {
    for (Network* network : {&on_cpu, &on_gpu}) {
      network->set_gradients(step);
      network->gradient_place(static_cast<size_t>(step % 3)).reset();
    }
    expected->step(coefficients(step));
    optimizer->step(coefficients(step));
  }
  row.compare(on_gpu.parameters, *optimizer, on_cpu.parameters, *expected);
}

void check_two_runs(Row& row, const Subject& subject) {
  const Shape shape = {.sizes = {1, 7, 1000, 32'769, 5'000'000}};
  Network one(shape, torch::kCUDA), two(shape, torch::kCUDA);
  const auto first = subject.make(one.parameters), second = subject.make(two.parameters);
  for (auto [network, optimizer] : {std::pair(&one, first.get()), std::pair(&two, second.get())}) {
    for (int step = 0; step < kSteps; ++step) {
      network->set_gradients(step);
      optimizer->step(coefficients(step));
    }
  }
  row.compare(one.parameters, *first, two.parameters, *second);
}

// With and without overflows, a loss scale, and eager steps in between and at the end.
void check_graph(Row& row, const Subject& subject, torch::Dtype gradients) {
  const Shape shape = {.sizes = {1, 7, 1000, 32'769, 300'000}, .gradients = gradients};
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  Network eager(shape, torch::kCUDA), captured(shape, torch::kCUDA);
  const double warmup_epochs = 10;  // a graph serves one stage of the hybrid
  const auto expected = subject.make(eager.parameters, warmup_epochs),
             optimizer = subject.make(captured.parameters, warmup_epochs);
  const torch::Tensor found_inf = torch::zeros({1}, torch::kCUDA), inverse_scale = torch::ones({1}, torch::kCUDA);
  const auto scaled = [&](int step) {
    StepCoefficients c = coefficients(step);
    c.found_inf = found_inf;
    c.inverse_scale = inverse_scale;
    return c;
  };
  for (auto [network, own] : {std::pair(&eager, expected.get()), std::pair(&captured, optimizer.get())}) {
    network->set_gradients(0);
    own->step(scaled(0));  // an average begins here
  }
  captured.set_gradients(0, true);
  std::vector<torch::Tensor> fixed;
  for (size_t i = 0; i < shape.sizes.size(); ++i) fixed.push_back(captured.gradient_place(i));
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  optimizer->step(scaled(99));  // coefficients that must not matter
  graph.capture_end();
  for (int step = 0; step < 30; ++step) {
    found_inf.fill_(step % 7 == 3 ? 1 : 0);
    inverse_scale.fill_(step % 2 == 0 ? 1.0 / 1024 : 0.3);
    eager.set_gradients(step);
    expected->step(scaled(step));
    if (step % 10 == 9) {
      captured.set_gradients(step);  // elsewhere; the next replay must find its own again
      optimizer->step(scaled(step));
    } else {
      captured.copy_gradients(step, fixed);
      optimizer->prepare(scaled(step));
      graph.replay();
    }
  }
  row.compare(captured.parameters, *optimizer, eager.parameters, *expected);
}

// found_inf leaves every bit as it is; inverse_scale is gradient_scale by another way.
void check_scaling(Row& row, const Subject& subject) {
  const Shape shape = {.sizes = {1000, 32'769, 5}};
  Network one(shape, torch::kCUDA), two(shape, torch::kCUDA);
  const auto first = subject.make(one.parameters), second = subject.make(two.parameters);
  for (int step = 0; step < 10; ++step) {
    StepCoefficients c = coefficients(step), scaled = c;
    c.gradient_scale /= 256;
    scaled.inverse_scale = torch::full({1}, 1.0 / 256, torch::kCUDA);
    for (Network* network : {&one, &two}) network->set_gradients(step);
    first->step(c);
    second->step(scaled);
  }
  row.compare(two.parameters, *second, one.parameters, *first);

  std::vector<torch::Tensor> before;
  for (const Parameter& parameter : two.parameters) before.push_back(parameter.tensor.clone());
  for (const auto& [name, tensor] : second->state()) {
    if (tensor.is_cuda()) before.push_back(tensor.clone());
  }
  StepCoefficients overflow = coefficients(10);
  overflow.found_inf = torch::ones({1}, torch::kCUDA);
  second->step(overflow);
  std::vector<torch::Tensor> after;
  for (const Parameter& parameter : two.parameters) after.push_back(parameter.tensor);
  for (const auto& [name, tensor] : second->state()) {
    if (tensor.is_cuda()) after.push_back(tensor);
  }
  bool same = before.size() == after.size();
  for (size_t i = 0; same && i < before.size(); ++i) same = torch::equal(before[i], after[i]);
  row.add(same ? 0 : NAN);
}

// More than 2^31 elements, so that no index is of 32 bits: all are alike, and stay so.
void check_large(Row& row, const Subject& subject) {
  const int64_t count = (int64_t{1} << 31) + 5;
  const auto options = torch::TensorOptions(torch::kCUDA);
  Parameter parameter = {"p0", torch::full({count}, 0.5f, options), true,
                         torch::empty({count}, options.dtype(torch::kBFloat16))};
  parameter.half.mutable_grad() = torch::full({count}, 0.25f, options.dtype(torch::kBFloat16));
  Network small({.sizes = {8192}}, torch::kCPU);
  torch::Tensor& one = small.parameters[0].tensor;
  one.fill_(0.5f);
  one.mutable_grad() = torch::full({8192}, 0.25f);
  // Norms grow by the same factor, so LARS takes the same rate.
  const auto optimizer = subject.make({parameter}), expected = subject.make(small.parameters);
  for (int step = 0; step < 2; ++step) {
    optimizer->step(coefficients(step));
    expected->step(coefficients(step));
  }
  const auto [least, most] = torch::aminmax(parameter.tensor);
  const auto [half_least, half_most] = torch::aminmax(parameter.half);
  row.add(Row::relative_error(least, one[0]));
  row.add(Row::relative_error(most, one[0]));
  row.add(Row::relative_error(half_least, half_most));
  row.add(Row::relative_error(half_most, one[0]) < 0.01 ? 0 : NAN);
}

std::vector<int64_t> many_sizes() {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < 600; ++i) sizes.push_back(1 + i * 37 % 300);  // more than one batch of write_tensors()
  return sizes;
}

bool optimizer_checks() {
  size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  const bool is_large_possible = free_bytes > size_t{48} << 30;

  std::deque<Row> rows;  // references to rows stay good
  for (const Subject& subject : kSubjects) {
    const auto row = [&](const char* check, double limit) -> Row& {
      std::fprintf(stderr, "%s: %s\n", subject.name.c_str(), check);
      return rows.emplace_back(Row{subject.name, check, limit});
    };
    Row& sizes = row("against the CPU", subject.limit);
    for (const int64_t size : {1, 7, 1000, 8192, 32'769, 5'000'000})
      check_against_cpu(sizes, subject, {.sizes = {size}});
    Row& misaligned = row("misaligned", subject.limit);
    for (const int64_t size : {1, 7, 1000, 32'769}) check_against_cpu(misaligned, subject, {{size, 64, size}, 1});
    check_against_cpu(row("many, moving gradients", subject.limit), subject, {.sizes = many_sizes()}, true);
    Row& halves = row("half gradients and copies", subject.limit);
    for (const auto type : {torch::kFloat16, torch::kBFloat16}) {
      check_against_cpu(halves, subject, {.sizes = {1, 7, 1000, 32'769}, .gradients = type});
      check_against_cpu(halves, subject, {.sizes = {7, 32'769}, .offset = 1, .gradients = type});
    }
    check_missing_gradient(row("missing gradients", subject.limit), subject);
    check_two_runs(row("two runs", 0), subject);
    Row& graphs = row("graph", 0);
    for (const auto type : {torch::kFloat32, torch::kFloat16}) check_graph(graphs, subject, type);
    check_scaling(row("scaling, skipping", 0), subject);
    if (is_large_possible && (subject.name == "sgd" || subject.name == "lars")) {
      check_large(row("2^31 + 5 elements", subject.limit == 0 ? 0 : 1e-4), subject);
    }
  }

  bool succeeded = true;
  for (const Row& row : rows) {
    print_check(row.subject, row.check, row.cases, row.error, row.failed);
    succeeded = succeeded && !row.failed;
  }
  return succeeded;
}

int run(const std::string& only) {
  if (!torch::cuda::is_available()) {
    fmt::print("no GPU: nothing was checked\n");
    return 0;
  }
  bool failed = false;
  print_check_heading();
  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  if (wanted("optimizers")) failed = !optimizer_checks() || failed;
  if (wanted("batch_norm")) failed = !check_batch_norm() || failed;
  if (wanted("batches")) failed = !check_batches() || failed;
  if (wanted("steps")) failed = !step_checks() || failed;
  if (wanted("batch_norm")) time_batch_norm();
  if (wanted("batches")) time_batches();
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  try {
    return paceline::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_checks: %s\n", error.what());
    return 1;
  }
}
