#include "paceline/gradients/data_parallel.h"

#include <fmt/format.h>

#include <map>

#include "paceline/collectives/group_text.h"
#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/core/error.h"
#include "paceline/gradients/batch_statistics.h"
#include "paceline/models/layers.h"

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

// One line for each parameter and buffer, in the module's order: "parameter fc.weight", a tab, "Float [144, 10]".
std::string layout_text(const torch::nn::Module& module) {
  std::string text;
  const auto add = [&](const char* kind, const std::string& name, const torch::Tensor& tensor) {
    text += fmt::format("{} {}\t{} [{}]{}\n", kind, name, c10::toString(tensor.scalar_type()),
                        fmt::join(tensor.sizes(), ", "),
                        tensor.requires_grad() || kind[0] == 'b' ? "" : " without requires_grad");
  };
  for (const auto& named : module.named_parameters()) add("parameter", named.key(), named.value());
  for (const auto& named : module.named_buffers()) add("buffer", named.key(), named.value());
  return text;
}

std::vector<std::pair<std::string, std::string>> entries_of(const std::string& layout) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (size_t begin = 0; begin < layout.size();) {
    const size_t tab = layout.find('\t', begin), end = layout.find('\n', tab);
    entries.emplace_back(layout.substr(begin, tab - begin), layout.substr(tab + 1, end - tab - 1));
    begin = end + 1;
  }
  return entries;
}

// The first thing in which two layouts differ; empty: nothing.
std::string first_difference(int rank, const std::string& own, const std::string& first) {
  if (own == first) return "";
  const auto here = entries_of(own), there = entries_of(first);
  const std::map<std::string, std::string> all_here(here.begin(), here.end()), all_there(there.begin(), there.end());
  for (const auto& [name, shape] : there) {
    const auto found = all_here.find(name);
    if (found == all_here.end()) return fmt::format("{} is {} on rank 0, and missing on rank {}", name, shape, rank);
    if (found->second != shape)
      return fmt::format("{} is {} on rank 0, and {} on rank {}", name, shape, found->second, rank);
  }
  for (const auto& [name, shape] : here)
    if (!all_there.contains(name)) return fmt::format("{} is {} on rank {}, and missing on rank 0", name, shape, rank);
  for (size_t i = 0; i < here.size(); ++i)
    if (here[i].first != there[i].first)
      return fmt::format("{} of rank 0 has {} in its place on rank {}", there[i].first, here[i].first, rank);
  return "";
}

// Throws on every rank alike, before anything that depends on shapes is exchanged.
torch::nn::Module& require_same_module(torch::nn::Module& module, Group& group) {
  if (group.size() == 1) return module;
  const std::string own = layout_text(module), first = broadcast_text(group, own, 0);
  for (const std::string& difference : gather_texts(group, first_difference(group.rank(), own, first)))
    if (!difference.empty())
      throw UsageError(
          fmt::format("the ranks train different modules: {}; build the same one on every rank", difference));
  return module;
}

}  // namespace

DataParallel::DataParallel(torch::nn::Module& module, Group& group, const DataParallelOptions& options)
    : module_(require_same_module(module, group)),
      group_(group),
      reducer_(trainable(module), group, reducer_options(options)),
      share_(BatchNorm2d::kMomentum) {
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

// As agree(). A rank that has left, or has gone on to something else, had fewer batches.
DataParallel::Agreement DataParallel::agree_on_step(double samples) {
  try {
    return agree(samples, true);
  } catch (const PeerError& error) {
    const std::string_view what = error.what();
    const bool alive = what.find(" left the group ") != what.npos || what.find(" called ") != what.npos;
    if (!alive) throw;
    throw PeerError(
        fmt::format("{}; if its batches ran out, call parallel.join(step) after the loop on every rank", what));
  }
}

void DataParallel::begin_if_new() {
  if (torn_)
    throw UsageError(
        fmt::format("rank {}: an exception ended an earlier backward() while {} ranks were summing it, and "
                    "they cannot go on together; let the program end, and start it again",
                    group_.rank(), group_.size()));
  if (!begun_) reducer_.begin();
  begun_ = true;
}

void DataParallel::forget_step() {
  begun_ = false;
  accumulated_samples_ = 0;
}

void DataParallel::accumulate(const torch::Tensor& loss, int64_t samples) {
  CHECK_GE(samples, 0);
  begin_if_new();
  try {
    (loss * static_cast<double>(samples)).backward();
  } catch (...) {
    forget_step();
    throw;
  }
  accumulated_samples_ += static_cast<double>(samples);
}

void DataParallel::backward(const torch::Tensor& loss, int64_t samples) {
  CHECK_GE(samples, 0);
  begin_if_new();
  const double mine = accumulated_samples_ + static_cast<double>(samples), all = agree_on_step(mine).samples;
  if (all == 0) {
    forget_step();
    throw UsageError("a step without a single sample on any rank has no mean gradient");
  }
  share_.begin_step(mine, all);
  try {
    reducer_.expect_last_pass(accumulated_samples_ > 0 ? static_cast<float>(1 / all) : 1);
    (loss * (static_cast<double>(samples) / all)).backward();
    reducer_.finish();
  } catch (...) {
    torn_ = group_.size() > 1;
    forget_step();
    throw;
  }
  forget_step();
}

void DataParallel::join(const std::function<void()>& step) {
  CHECK_TRUE(!begun_, "join() between accumulate() and backward()");
  for (;;) {
    const Agreement step_of_others = agree(0, false);
    if (step_of_others.ranks == 0) return;
    share_.begin_step(0, step_of_others.samples);
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

void DataParallel::average_statistics() { average_batch_statistics(module_, group_, share_.weight()); }

}  // namespace paceline
