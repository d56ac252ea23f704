#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <functional>

#include "batch_norm_case.h"
#include "batch_norm_checks.h"
#include "paceline/models/layers.h"

namespace paceline {
namespace {

constexpr int64_t kBatch = 256;
constexpr int kRepetitions = 20;

struct Images {
  int64_t pixels, channels;  // pixels: in a row of the image, and rows
};

const std::vector<Images> kImages = {{56, 64}, {56, 256}, {28, 512}, {14, 1024}};

// As a graph, so that the host's own time does not count.
double microseconds(const std::function<void()>& work) {
  for (int i = 0; i < 3; ++i) work();
  torch::cuda::synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  work();
  graph.capture_end();
  for (int i = 0; i < 3; ++i) graph.replay();
  at::cuda::CUDAEvent start(cudaEventDefault), end(cudaEventDefault);
  start.record();
  for (int i = 0; i < kRepetitions; ++i) graph.replay();
  end.record();
  end.synchronize();
  return start.elapsed_time(end) * 1e3 / kRepetitions;
}

void print_pass(const char* pass, int moved, const Images& images, const std::function<void()>& work) {
  const double us = microseconds(work);
  const double bytes = 2.0 * moved * kBatch * images.pixels * images.pixels * images.channels;
  fmt::print("{:<44}{:>5}{:>6}{:>10.1f}{:>8.2f}\n", pass, images.pixels, images.channels, us, bytes / us * 1e-6);
}

void time_passes(const Images& images) {
  using enum BatchNormPasses;
  const int64_t rows = kBatch * images.pixels * images.pixels;
  BatchNormCase plain(torch::kFloat16, rows, images.channels, false, true);
  print_pass("statistics", 1, images, [&] { plain.forward(sums); });
  print_pass("normalise + ReLU", 2, images, [&] { plain.forward(result); });
  print_pass("gradient sums, mask from the input", 2, images, [&] { plain.backward(sums); });
  print_pass("input gradient, mask from the input", 3, images, [&] { plain.backward(result); });
  BatchNormCase added(torch::kFloat16, rows, images.channels, true, true);
  added.forward();
  print_pass("normalise + residual + ReLU", 3, images, [&] { added.forward(result); });
  print_pass("gradient sums, masked gradient", 4, images, [&] { added.backward(sums); });
  print_pass("input gradient", 3, images, [&] { added.backward(result); });
}

struct Whole {
  double forward_us, backward_us;
};

Whole time_whole(const Images& images, bool with_residual,
                 const std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>& forward,
                 const std::vector<torch::Tensor>& parameters) {
  const auto make = [&] {
    return torch::randn({kBatch, images.channels, images.pixels, images.pixels},
                        torch::TensorOptions(torch::kCUDA).dtype(torch::kFloat16))
        .contiguous(torch::MemoryFormat::ChannelsLast);
  };
  const torch::Tensor x = make().requires_grad_(), gradient = make();
  const torch::Tensor residual = with_residual ? make().requires_grad_() : torch::Tensor();
  std::vector<torch::Tensor> inputs = parameters;
  inputs.push_back(x);
  if (with_residual) inputs.push_back(residual);
  const double forward_us = microseconds([&] { forward(x, residual); });
  const double both_us = microseconds([&] { torch::autograd::grad({forward(x, residual)}, inputs, {gradient}); });
  return {forward_us, both_us - forward_us};
}

void time_operations(const Images& images, bool with_residual) {
  BatchNorm2d layer(images.channels);
  layer.to(torch::kCUDA);
  layer.reset();
  const auto parameters = layer.parameters(), buffers = layer.buffers();  // gamma, beta; mean, variance, count
  const Whole own = time_whole(
      images, with_residual,
      [&](const torch::Tensor& x, const torch::Tensor& residual) { return layer.forward(x, residual, true); },
      parameters);
  const Whole torchs = time_whole(
      images, with_residual,
      [&](const torch::Tensor& x, const torch::Tensor& residual) {
        const torch::Tensor out = torch::batch_norm(x, parameters[0], parameters[1], buffers[0], buffers[1], true,
                                                    BatchNorm2d::kMomentum, BatchNorm2d::kEpsilon, true);
        return finish_block(out, residual, true);
      },
      parameters);
  fmt::print("{:<44}{:>5}{:>6}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}\n",
             with_residual ? "normalise + residual + ReLU" : "normalise + ReLU", images.pixels, images.channels,
             own.forward_us, torchs.forward_us, own.backward_us, torchs.backward_us);
}

}  // namespace

void time_batch_norm() {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  fmt::print("\nf16, batches of {} images, means of {} replays\n", kBatch, kRepetitions);
  fmt::print("{:<44}{:>5}{:>6}{:>10}{:>8}\n", "pass", "px", "ch", "us", "TB/s");
  for (const Images& images : kImages) time_passes(images);
  fmt::print("\n{:<44}{:>5}{:>6}{:>10}{:>10}{:>10}{:>10}\n", "operation, us", "px", "ch", "forward", "torch's",
             "backward", "torch's");
  for (const bool with_residual : {false, true}) {
    for (const Images& images : kImages) time_operations(images, with_residual);
  }
}

}  // namespace paceline
