#include "paceline/serving/worker_loop.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>

#include "paceline/precision/finite_check.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/serving/served_settings.h"
#include "paceline/train/assemble.h"
#include "paceline/train/checkpoint.h"
#include "paceline/train/device_settings.h"
#include "paceline/train/divergence.h"
#include "paceline/train/dropout_seed.h"
#include "paceline/train/slow_down.h"

namespace paceline {
namespace {

constexpr int64_t kNewsEveryNs = 300'000'000;
constexpr uint64_t kStreamedElements = 1 << 18;  // that are worth a message of their own during backward

}  // namespace

WorkerLoop::WorkerLoop(Recipe recipe, WorkerLoopOptions options)
    : recipe_(std::move(recipe)),
      options_(std::move(options)),
      device_(options_.open_device(recipe_, options_.place)),
      data_(open_data(recipe_, options_.catalog)),
      flat_(placed_on(device_, build_model(recipe_, options_.catalog, *data_.train))),
      plan_(server_plan(recipe_, flat_.model(), data_.train->size(), options_.workers)),
      rate_(rate_schedule(recipe_,
                          static_cast<int64_t>(batch_schedule(recipe_, options_.workers, data_.train->size()).at(0)))),
      pass_(flat_.model(), recipe_),
      samples_(data_.train, data_.normalisation,
               {.crop_padding = recipe_.augment.crop_padding,
                .flip = recipe_.augment.flip,
                .cutout = recipe_.augment.cutout},
               recipe_.train.seed, device_),
      parameters_(flat_.count()),
      push_(flat_.count()) {
  if (!options_.checkpoint.empty()) {
    load_weights({.folder = options_.checkpoint}, flat_.model());  // parameters are the servers' to give
    flat_.go_on_with_mean_statistics();
  }
  settle_device(recipe_, device_);
  at::set_num_threads(options_.threads);
  if (recipe_.sync.rate == "barzilai_borwein") {
    first_rate_ = base_rate(recipe_, static_cast<int64_t>(plan_.coordinator.plan.global_batch.at(0)));
    const double most = recipe_.sync.most_rate > 0 ? recipe_.sync.most_rate : 10 * first_rate_;
    if (most < first_rate_) recipe_.refuse("sync.most_rate", "lies below the rate that workers begin with");
    worker_rate_ = std::make_unique<CurvatureRate>(flat_.parameters(), useful_barzilai_borwein(first_rate_, most));
  }
  if (updates_alone(recipe_)) optimizer_ = build_optimizer(recipe_, options_.catalog, flat_.model(), 1);
}

WorkerLoop::~WorkerLoop() = default;

void WorkerLoop::run() {
  flat_.model().train();
  server_.emplace(WorkerOptions{.servers = options_.servers,
                                .map = plan_.map,
                                .worker = options_.worker,
                                .run = options_.run,
                                .settings = served_settings(recipe_, data_),
                                .codec = updates_alone(recipe_) ? "none" : recipe_.comm.codec,
                                .security = options_.security,
                                .patience_ms = options_.patience_ms,
                                .stop = options_.stop,
                                .log = options_.log});
  if (!optimizer_ && recipe_.comm.overlap && recipe_.comm.codec == "none")
    stream_ = std::make_unique<GradientStream>(flat_, push_, kStreamedElements, [this](uint64_t begin, uint64_t count) {
      server_->push_ready(push_, begin, count);
    });
  std::optional<Assignment> assignment = server_->join(parameters_);
  while (assignment && !options_.stop.stop_requested()) {
    flat_.load(parameters_);
    const int64_t from_ns = clock_.now_ns();
    const double rate = last_rate_ = compute(assignment->lease);
    slow_down(recipe_, options_.worker, seconds_between(from_ns, clock_.now_ns()));
    compute_s_ += 1e-9 * static_cast<double>(clock_.now_ns() - from_ns);
    if (clock_.now_ns() - told_ns_ >= kNewsEveryNs) tell_news();
    assignment = server_->push(push_, assignment->lease.range.size(), rate, parameters_);
  }
  tell_news();
  server_->leave();
}

double WorkerLoop::compute(const SampleLease& lease) {
  const double rate = rate_(epoch_at(lease.cursor_samples));
  if (optimizer_) {
    make_local_steps(lease);
    push_ = flat_.weights();
  } else {
    gradient_of(lease.range, lease);
    if (stream_) {
      stream_->finish();
    } else {
      flat_.gather_gradient(push_);
    }
    if (worker_rate_) return own_rate(lease, rate);
  }
  return rate;
}

double WorkerLoop::own_rate(const SampleLease& lease, double scheduled) {
  const double found = worker_rate_->next(
      {.samples = static_cast<double>(lease.range.size()), .data_samples = static_cast<double>(data_.train->size())},
      {});
  return found * scheduled / first_rate_;
}

// The mean over the range's samples, in the parameters' gradients.
void WorkerLoop::gradient_of(const BatchRange& range, const SampleLease& lease) {
  const TrainingBatch batch = samples_.load(range);
  seed_dropout(recipe_.train.seed, static_cast<int64_t>(lease.step), lease.share);
  for (const Parameter& parameter : flat_.parameters()) parameter.tensor.mutable_grad().reset();
  const auto count = static_cast<int64_t>(batch.count);
  const PassSums sums = pass_.gradients(batch, count, [this] {
    if (stream_) stream_->expect_last_pass();
  });
  const auto losses = sums.loss.item<double>();
  if (!std::isfinite(losses)) fail(lease, "the loss is not finite");
  std::vector<torch::Tensor> gradients;
  for (const Parameter& parameter : flat_.parameters())
    if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
  if (any_not_finite(gradients, device_).item<float>() > 0) fail(lease, "a gradient is not finite");
  loss_sum_ += losses;
  correct_ += sums.correct.item<int64_t>();
  samples_seen_ += count;
  ++steps_;
}

void WorkerLoop::make_local_steps(const SampleLease& lease) {
  for (const BatchRange& range : local_batches(recipe_, lease, options_.workers)) {
    gradient_of(range, lease);
    // A global step takes every worker one batch further.
    const uint64_t ahead = (range.begin - lease.range.begin) * static_cast<uint64_t>(options_.workers);
    const double epoch = epoch_at(lease.cursor_samples + ahead);
    optimizer_->step({.rate = rate_(epoch), .momentum = recipe_.optimizer.momentum, .epoch = epoch});
  }
}

void WorkerLoop::tell_news() {
  told_ns_ = clock_.now_ns();
  if (samples_seen_ == told_samples_) return;
  told_samples_ = samples_seen_;
  const auto per_step_ms = [&](double seconds) {
    return static_cast<float>(1e3 * seconds / static_cast<double>(std::max<int64_t>(steps_, 1)));
  };
  const ServerWorker::Costs costs = server_->costs();
  const WorkerNews news = {.worker = options_.worker,
                           .samples = static_cast<double>(samples_seen_),
                           .steps = static_cast<double>(steps_),
                           .loss_sum = loss_sum_,
                           .correct = static_cast<double>(correct_),
                           .rate = static_cast<float>(last_rate_),
                           .compute_ms = per_step_ms(compute_s_),
                           .push_ms = per_step_ms(costs.push_s),
                           .wait_ms = per_step_ms(costs.wait_s),
                           .pull_ms = per_step_ms(costs.pull_s),
                           .statistics = flat_.statistics()};
  server_->send_statistics(news.to_numbers());
}

double WorkerLoop::epoch_at(uint64_t cursor_samples) const {
  return static_cast<double>(cursor_samples) / static_cast<double>(data_.train->size());
}

void WorkerLoop::fail(const SampleLease& lease, const std::string& what) const {
  throw DivergenceError(fmt::format("worker {}, step {} (epoch {:.4g}): {}: the run diverged; {}", options_.worker,
                                    lease.step + 1, epoch_at(lease.cursor_samples), what, kAgainstDivergence));
}

}  // namespace paceline
