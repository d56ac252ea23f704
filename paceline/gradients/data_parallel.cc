#include "paceline/gradients/data_parallel.h"

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/core/error.h"
#include "paceline/gradients/batch_statistics.h"

namespace paceline {
namespace {

std::vector<NamedParameter> trainable(const torch::nn::Module& module) {
  std::vector<NamedParameter> parameters;
  for (const auto& named : module.named_parameters())
    if (named.value().requires_grad()) parameters.push_back({named.key(), named.value()});
  return parameters;
}

ReducerOptions reducer_options(const DataParallelOptions& options) {
  ReducerOptions result;
  result.bucket_bytes = options.bucket_bytes;
  result.overlap = options.overlap ? Overlap::where_it_pays : Overlap::never;
  result.algorithm = options.algorithm;
  result.sum = {options.codec, options.error_feedback, options.momentum_correction};
  return result;
}

}  // namespace

DataParallel::DataParallel(torch::nn::Module& module, Group& group, const DataParallelOptions& options)
    : module_(module), group_(group), reducer_(trainable(module), group, reducer_options(options)) {
  broadcast();
}

DataParallel::~DataParallel() = default;

void DataParallel::broadcast() {
  const torch::NoGradGuard no_grad;
  const auto send = [&](const torch::Tensor& tensor) {
    const torch::Tensor whole = tensor.detach().cpu().contiguous();  // groups move host memory
    group_.broadcast({whole.data_ptr(), static_cast<size_t>(whole.nbytes()), DType::u8}, 0);
    if (whole.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(whole);
  };
  for (const torch::Tensor& parameter : module_.parameters()) send(parameter);
  for (const torch::Tensor& buffer : module_.buffers()) send(buffer);
}

// Three numbers, of which one is always 0: so that a rank which calls sum() or mean() instead is told apart.
DataParallel::Agreement DataParallel::agree(double samples, bool taking_part) {
  std::array<double, 3> numbers = {samples, taking_part ? 1.0 : 0.0, 0.0};
  sum_over_ranks(group_, view(std::span<double>(numbers)));
  return {numbers[0], numbers[1]};
}

void DataParallel::begin_if_new() {
  if (!begun_) reducer_.begin();
  begun_ = true;
}

void DataParallel::accumulate(const torch::Tensor& loss, int64_t samples) {
  CHECK_GE(samples, 0);
  begin_if_new();
  (loss * static_cast<double>(samples)).backward();
  accumulated_samples_ += static_cast<double>(samples);
}

void DataParallel::backward(const torch::Tensor& loss, int64_t samples) {
  CHECK_GE(samples, 0);
  begin_if_new();
  const double all = agree(accumulated_samples_ + static_cast<double>(samples), true).samples;
  if (all == 0) throw UsageError("a step without a single sample on any rank has no mean gradient");
  reducer_.expect_last_pass(accumulated_samples_ > 0 ? static_cast<float>(1 / all) : 1);
  (loss * (static_cast<double>(samples) / all)).backward();
  reducer_.finish();
  begun_ = false;
  accumulated_samples_ = 0;
}

void DataParallel::join(const std::function<void()>& step) {
  CHECK_TRUE(!begun_, "join() between accumulate() and backward()");
  while (agree(0, false).ranks > 0) {
    reducer_.begin();
    reducer_.finish();
    step();
  }
}

double DataParallel::sum(double value) {
  sum_over_ranks(group_, {&value, 1, DType::f64});
  return value;
}

double DataParallel::mean(double value, double weight) {
  std::array<double, 2> sums = {value * weight, weight};
  sum_over_ranks(group_, view(std::span<double>(sums)));
  return sums[0] / sums[1];
}

void DataParallel::average_statistics() { average_batch_statistics(module_, group_); }

}  // namespace paceline
