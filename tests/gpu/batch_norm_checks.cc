#include "batch_norm_checks.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "batch_norm_case.h"
#include "check_row.h"
#include "paceline/models/layers.h"

namespace paceline {
namespace {

struct Row {
  std::string check;
  double limit;
  int cases = 0;
  double error = 0;
  bool failed = false;

  void add(double found, double allowed) {
    ++cases;
    if (!(found <= allowed)) failed = true;  // NaN, too
    if (!(found <= error)) error = found;
  }
  void add(double found) { add(found, limit); }
  void require(bool good) { add(good ? 0 : NAN); }
};

// The largest difference, as a share of `scale` (or of the largest number expected).
double error_of(const torch::Tensor& found, const torch::Tensor& expected, double scale = 0) {
  const torch::Tensor a = found.detach().to(torch::kFloat64).cpu(), b = expected.detach().to(torch::kFloat64).cpu();
  if (scale == 0) scale = b.abs().max().item<double>();
  return (a - b).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

// A number rounded the other way differs by one unit in its last place.
double unit(torch::Dtype type) {
  return type == torch::kFloat16 ? 1.0 / 1024 : type == torch::kBFloat16 ? 1.0 / 128 : 0;
}

struct ReferenceRows {
  Row &statistics, &output, &sums, &input_gradient, &masked;
};

void check_against_reference(ReferenceRows& rows, const BatchNormCase& c) {
  BatchNormCase on_device = c.copy(), expected = c.on_cpu();
  on_device.forward();
  expected.forward();
  // Few rows may be nearly alike; the rounding of their mean then counts up to 1/sqrt(epsilon) = 316 times.
  const double few = c.rows() < 100 ? 10 : 1;
  for (int i = 0; i < BatchNormStatistics::rows; ++i) {
    rows.statistics.add(error_of(on_device.statistics[i], expected.statistics[i]), few * 1e-5);
  }
  rows.statistics.add(error_of(on_device.running_mean, expected.running_mean), few * 1e-5);
  rows.statistics.add(error_of(on_device.running_variance, expected.running_variance), few * 1e-5);
  rows.statistics.require(on_device.batches.item<int64_t>() == expected.batches.item<int64_t>());
  rows.output.add(error_of(on_device.output, expected.output), few * 1e-5 + unit(c.type()));

  // Backward from the same statistics and output: what passed the ReLU must be the same to the bit.
  on_device.backward();
  expected.statistics.copy_(on_device.statistics);
  expected.output.copy_(on_device.output);
  expected.backward();
  rows.sums.add(error_of(on_device.gamma_gradient, expected.gamma_gradient));
  rows.sums.add(error_of(on_device.beta_gradient, expected.beta_gradient));
  // Of what is subtracted: with two rows nothing but rounding is left.
  const double scale =
      (expected.statistics[BatchNormStatistics::scale].abs().max() * expected.gradient.abs().max()).item<double>();
  rows.input_gradient.add(error_of(on_device.input_gradient, expected.input_gradient, scale),
                          few * 1e-5 + unit(c.type()));
  if (c.masks()) rows.masked.add(error_of(on_device.masked_gradient, expected.masked_gradient));
  rows.masked.require(on_device.counters.eq(0).all().item<bool>());
}

void check_two_runs(Row& row, const BatchNormCase& c) {
  BatchNormCase one = c.copy(), two = c.copy();
  for (BatchNormCase* run : {&one, &two}) {
    run->forward();
    run->backward();
  }
  row.require(one.equals(two));
}

void check_graph(Row& row, const BatchNormCase& c) {
  torch::cuda::synchronize();  // the case is made on another stream
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  BatchNormCase eager = c.copy(), captured = c.copy();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  captured.forward();
  captured.backward();
  graph.capture_end();
  for (int replay = 0; replay < 3; ++replay) {
    for (BatchNormCase* run : {&eager, &captured}) run->input.copy_(c.input.roll(replay, 0));
    eager.forward();
    eager.backward();
    graph.replay();
    row.require(captured.equals(eager));
  }
}

// Far from 0, where a sum of squares would have no digits left.
void check_far_from_zero(Row& row) {
  BatchNormCase c(torch::kFloat32, 25'088, 64, false, false);
  c.input.mul_(0.05).add_(1000);
  BatchNormCase expected = c.on_cpu();
  c.forward();
  expected.forward();
  row.add(error_of(c.statistics[BatchNormStatistics::inverse_deviation],
                   expected.statistics[BatchNormStatistics::inverse_deviation]));
}

// Where one value is not a number its channel has none, and the others are as they would be.
void check_not_a_number(Row& row) {
  BatchNormCase c(torch::kFloat16, 1000, 64, false, true), clean = c.copy();
  c.input[500][7].fill_(NAN);
  for (BatchNormCase* run : {&c, &clean}) {
    run->forward();
    run->backward();
  }
  row.require(c.output.isnan().sum().item<int64_t>() == 1000 && c.output.select(1, 7).isnan().all().item<bool>());
  row.require(c.input_gradient.isnan().sum().item<int64_t>() == 1000);
  row.require(c.output.slice(1, 8).equal(clean.output.slice(1, 8)));
}

// ---- The operation --------------------------------------------------------------------------------------------------

torch::Tensor random_images(torch::IntArrayRef sizes, torch::Dtype type) {
  return torch::randn(sizes, torch::kCUDA).to(type).contiguous(torch::MemoryFormat::ChannelsLast);
}

// A layer's output and gradients, in f32 or f16 images, beside torch's own on the same images in f32.
void check_layer(Row& row, torch::Dtype type, bool with_residual, bool relu) {
  torch::manual_seed(11);
  BatchNorm2d layer(64);
  layer.to(torch::kCUDA);
  layer.reset();
  const auto parameters = layer.named_parameters(), buffers = layer.named_buffers();
  {
    torch::NoGradGuard no_grad;
    parameters["weight"].copy_(1 + 0.3 * torch::randn({64}, torch::kCUDA));
    parameters["bias"].copy_(torch::randn({64}, torch::kCUDA));
  }
  const std::vector<int64_t> sizes = {16, 64, 14, 14};
  const torch::Tensor images = random_images(sizes, type).requires_grad_(), gradient = random_images(sizes, type);
  const torch::Tensor residual = with_residual ? random_images(sizes, type).requires_grad_() : torch::Tensor();
  const torch::Tensor mean = torch::zeros({64}, torch::kCUDA), variance = torch::ones({64}, torch::kCUDA);

  std::vector<torch::Tensor> inputs = {images, parameters["weight"], parameters["bias"]};
  if (with_residual) inputs.push_back(residual);
  const torch::Tensor out = layer.forward(images, residual, relu);
  const auto found = torch::autograd::grad({out}, inputs, {gradient});
  row.require(out.grad_fn()->name().find("FusedBatchNorm") != std::string::npos);
  row.require(out.scalar_type() == type && out.is_contiguous(torch::MemoryFormat::ChannelsLast));
  row.require(found[0].is_contiguous(torch::MemoryFormat::ChannelsLast));
  row.require(buffers["num_batches_tracked"].item<int64_t>() == 1);

  torch::Tensor expected = torch::batch_norm(images.to(torch::kFloat32), parameters["weight"], parameters["bias"], mean,
                                             variance, true, BatchNorm2d::kMomentum, BatchNorm2d::kEpsilon, false);
  if (with_residual) expected = expected + residual.to(torch::kFloat32);
  // The same places as ours: a value that rounds to 0 would pass in one of the two.
  if (relu) expected = expected * out.detach().gt(0);
  const auto wanted = torch::autograd::grad({expected}, inputs, {gradient.to(torch::kFloat32)});
  // Both sum in f32, 3136 values, in orders of their own.
  const double limit = row.limit + unit(type);
  row.add(error_of(out, expected), limit);
  row.add(error_of(buffers["running_mean"], mean), row.limit);
  row.add(error_of(buffers["running_var"], variance), row.limit);
  for (size_t i = 0; i < found.size(); ++i) {
    // Sums of gradients: some that are rounded to 0 in f16 count here and not there.
    row.add(error_of(found[i], wanted[i]), limit);
  }
}

void check_layer_graph(Row& row) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  torch::manual_seed(12);
  BatchNorm2d layer(256), other(256);
  for (BatchNorm2d* l : {&layer, &other}) {
    l->to(torch::kCUDA);
    l->reset();
  }
  const std::vector<int64_t> sizes = {32, 256, 7, 7};
  const torch::Tensor images = random_images(sizes, torch::kFloat16).requires_grad_(),
                      residual = random_images(sizes, torch::kFloat16).requires_grad_(),
                      gradient = random_images(sizes, torch::kFloat16);
  const auto run = [&](BatchNorm2d& l) {
    const torch::Tensor out = l.forward(images, residual, true);
    auto all = torch::autograd::grad({out}, {images, residual, l.parameters()[0], l.parameters()[1]}, {gradient});
    all.push_back(out);
    return all;
  };
  for (BatchNorm2d* l : {&layer, &other}) run(*l);  // autograd's thread must have met the device before
  torch::cuda::synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const auto captured = run(layer);
  graph.capture_end();
  for (int replay = 0; replay < 3; ++replay) {
    {
      torch::NoGradGuard no_grad;
      images.mul_(1.25);
    }
    const auto eager = run(other);
    graph.replay();
    for (size_t i = 0; i < eager.size(); ++i) row.require(captured[i].equal(eager[i]));
    for (const auto& buffer : layer.named_buffers()) {
      row.require(other.named_buffers()[buffer.key()].equal(buffer.value()));
    }
  }
}

}  // namespace

bool check_batch_norm() {
  std::deque<Row> rows;  // references to rows stay good
  const auto row = [&](const std::string& check, double limit) -> Row& {
    std::fprintf(stderr, "batch norm: %s\n", check.c_str());
    return rows.emplace_back(Row{check, limit});
  };
  for (const auto type : {torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
    const std::string name = type == torch::kFloat32 ? "f32" : type == torch::kFloat16 ? "f16" : "bf16";
    ReferenceRows reference = {row(name + " statistics", 1e-4), row(name + " output", 1e-4 + unit(type)),
                               row(name + " gamma, beta gradients", 1e-5),
                               row(name + " input gradient", 1e-4 + unit(type)), row(name + " masked gradient", 0)};
    Row &two_runs = row(name + " two runs", 0), &graphs = row(name + " graph", 0);
    for (const int64_t values : {2, 7, 100, 1000, 25'088}) {
      for (const int64_t channels : {8, 24, 64, 256, 264, 2048}) {
        if (values * channels > 8'000'000 && type != torch::kFloat16) continue;  // the reference takes seconds
        for (const bool residual : {false, true}) {
          for (const bool relu : {false, true}) {
            const BatchNormCase c(type, values, channels, residual, relu);
            check_against_reference(reference, c);
            check_two_runs(two_runs, c);
            if (values == 1000 || values == 7) check_graph(graphs, c);
          }
        }
      }
    }
  }
  check_far_from_zero(row("deviation far from 0", 1e-4));
  check_not_a_number(row("not a number", 0));
  Row& layers = row("layer beside torch's", 2e-5);
  Row& half_layers = row("f16 layer beside torch's f32", 2e-3);
  for (const bool residual : {false, true}) {
    for (const bool relu : {false, true}) {
      check_layer(layers, torch::kFloat32, residual, relu);
      check_layer(half_layers, torch::kFloat16, residual, relu);
    }
  }
  check_layer_graph(row("layer in a graph", 0));

  bool good = true;
  for (const Row& r : rows) {
    print_check("batch normalisation", r.check, r.cases, r.error, r.failed);
    good = good && !r.failed;
  }
  return good;
}

}  // namespace paceline
