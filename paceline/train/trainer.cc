#include "paceline/train/trainer.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <thread>

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/core/file.h"
#include "paceline/core/number_text.h"
#include "paceline/core/version.h"
#include "paceline/metrics/run_chart.h"
#include "paceline/models/state.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/train/assemble.h"

namespace paceline {
namespace {

uint64_t global_batch_of(const Recipe& recipe, const Group& group, const Dataset& data) {
  const int64_t wanted = recipe.batch.local > 0 ? recipe.batch.local * group.size() : recipe.batch.global;
  return std::min<uint64_t>(static_cast<uint64_t>(wanted), data.size());
}

int threads_per_rank(const Recipe& recipe, const Group& group) {
  if (recipe.train.threads > 0) return static_cast<int>(recipe.train.threads);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / group.size());
}

// Whether (from, to] holds a multiple of `interval`.
bool passes_multiple(double from, double to, double interval) {
  constexpr double kRounding = 1e-9;
  return interval > 0 && std::floor(to / interval + kRounding) > std::floor(from / interval + kRounding);
}

}  // namespace

Trainer::Trainer(Recipe recipe, Group& group, TrainerOptions options)
    : recipe_(std::move(recipe)),
      group_(group),
      options_(std::move(options)),
      device_(open_device(recipe_)),
      data_(open_data(recipe_, options_.catalog)),
      model_(build_model(recipe_, options_.catalog, *data_.train)),
      checkpoints_(options_.run_folder.checkpoints(), recipe_.checkpoint.keep),
      speed_(clock_.now_ns()) {
  model_->to(device_);
  optimizer_ = build_optimizer(recipe_, options_.catalog, *model_);
  global_batch_ = global_batch_of(recipe_, group_, *data_.train);
  rate_ = rate_schedule(recipe_, static_cast<int64_t>(global_batch_));
  state_.seed = recipe_.train.seed;
  at::set_num_threads(threads_per_rank(recipe_, group_));
}

Trainer::~Trainer() = default;

Summary Trainer::run() {
  begin();
  while (!finished()) {
    const double epoch_before = epoch();
    make_step();
    if (state_.step % recipe_.train.log_every_steps == 0) record_window();
    if (passes_multiple(epoch_before, epoch(), recipe_.train.eval_every_epochs)) evaluate();
    const bool checkpoint_due = recipe_.checkpoint.every_steps > 0 ? state_.step % recipe_.checkpoint.every_steps == 0
                                                                   : passes_multiple(epoch_before, epoch(), 1);
    if (checkpoint_due) write_checkpoint();
    show_progress();
  }
  if (ending_ != "interrupted") {
    if (state_.window_steps > 0) record_window();
    if (state_.evaluated_step != state_.step) evaluate();
  }
  write_checkpoint();
  show_progress();
  if (options_.progress) options_.progress->finish();
  return summarise();
}

void Trainer::begin() {
  CheckpointStore::Search search;
  if (options_.resume) search = checkpoints_.find_newest_intact();
  if (options_.log) {
    for (const std::string& skipped : search.skipped)
      options_.log->warning("skipped a damaged checkpoint: {}", skipped);
  }
  if (search.newest) {
    state_ = load_checkpoint(*search.newest, *model_, *optimizer_);
    if (keeps_files()) checkpoints_.remove_newer_than(*search.newest);
    if (state_.seed != recipe_.train.seed)
      recipe_.refuse("train.seed", fmt::format("the run began with seed {}", state_.seed));
    if (options_.log) options_.log->info("resuming from {} (epoch {:.4g})", search.newest->folder.string(), epoch());
  } else if (options_.resume && options_.log) {
    options_.log->info("no intact checkpoint in {}: starting from the beginning",
                       options_.run_folder.checkpoints().string());
  }
  if (options_.log) {
    options_.log->info("training {} ({} parameters) on {}: {} images, {:.4g} epochs in {} steps of {} samples",
                       recipe_.model.name, with_commas(static_cast<uint64_t>(parameter_count(*model_))),
                       recipe_.data.name, with_commas(data_.train->size()), total_epochs(),
                       with_commas(static_cast<uint64_t>(total_steps())), with_commas(global_batch_));
  }
  if (group_.rank() != 0) clear_window_sums();
  for (const auto& [name, tensor] : state_of(*model_)) {  // every rank starts from rank 0's weights
    if (tensor.is_cpu() && group_.size() > 1) {
      group_.broadcast({tensor.data_ptr(), static_cast<size_t>(tensor.nbytes()), DType::u8}, 0);
    }
  }

  loader_ = std::make_unique<Loader>(data_.train, data_.normalisation,
                                     LoaderOptions{.global_batch = global_batch_,
                                                   .rank = group_.rank(),
                                                   .ranks = group_.size(),
                                                   .threads = static_cast<int>(recipe_.data.loader_threads),
                                                   .prefetch_batches = static_cast<int>(recipe_.data.prefetch_batches),
                                                   .seed = recipe_.train.seed,
                                                   .augmentation = {.crop_padding = recipe_.augment.crop_padding,
                                                                    .flip = recipe_.augment.flip,
                                                                    .cutout = recipe_.augment.cutout}},
                                     state_.cursor_samples);
  tensors_ = std::make_unique<BatchTensors>(*loader_, device_);
  step_ = std::make_unique<TrainStep>(model_, *optimizer_, group_, recipe_);
  evaluator_ = std::make_unique<Evaluator>(data_, recipe_, group_, device_);
  if (keeps_files()) {
    make_directories(options_.run_folder.root);
    if (search.newest) report_changes();
    replace_file(options_.run_folder.recipe(), print_recipe(recipe_));
    recorder_ = std::make_unique<Recorder>(options_.run_folder.root, state_.step);
  }
  model_->train();
  speed_.skip_to(clock_.now_ns());
}

// A run may go on under another recipe (a longer one, say); nobody should have to guess later what it was trained with.
void Trainer::report_changes() {
  if (!options_.log || !options_.run_folder.holds_a_run()) return;
  for (const std::string& change : recipe_changes(read_recipe(options_.run_folder.recipe()), recipe_)) {
    options_.log->warning("the recipe has changed since the run began: {}", change);
  }
}

void Trainer::make_step() {
  const int64_t from_ns = clock_.now_ns();
  const Batch& batch = loader_->next();
  pending_.push_back(
      (*step_)(tensors_->of(batch), static_cast<int64_t>(batch.global_count), state_.step, rate_at(epoch())));
  state_.step += 1;
  state_.cursor_samples += batch.global_count;
  // Reading an outcome waits for the device; the CPU is always done.
  if (device_.is_cpu() || state_.step % recipe_.train.log_every_steps == 0) drain();
  const int64_t now_ns = clock_.now_ns();
  state_.train_seconds += seconds_between(from_ns, now_ns);
  speed_.add(static_cast<double>(batch.global_count), now_ns);
}

void Trainer::drain() {
  int64_t step = state_.step - static_cast<int64_t>(pending_.size());
  for (const StepOutcome& outcome : pending_) {
    ++step;
    const double loss = outcome.loss_sum.item<double>();
    if (!std::isfinite(loss)) {
      const auto last_good = checkpoints_.all();
      throw TrainingError(fmt::format(
          "the loss is {} at step {} (epoch {:.4g}): the run diverged; try a lower optimizer.rate, a longer "
          "schedule.warmup_epochs or "
          "optimizer.clip_norm{}",
          loss, step, epoch(),
          last_good.empty() ? "" : fmt::format("; the last checkpoint is {}", last_good.back().folder.string())));
    }
    state_.window_steps += 1;
    state_.window_loss_sum += loss;
    state_.window_correct += outcome.correct.item<int64_t>();
    state_.window_samples += outcome.samples;
  }
  pending_.clear();
}

// The window of all ranks, held by every rank; whoever goes on with it must let only one of them count
// (clear_window_sums).
void Trainer::gather_window() {
  std::vector<double> loss = {state_.window_loss_sum};
  std::vector<int64_t> counts = {state_.window_correct, state_.window_samples};
  sum_over_ranks(group_, view(loss));
  sum_over_ranks(group_, view(counts));
  state_.window_loss_sum = loss[0];
  state_.window_correct = counts[0];
  state_.window_samples = counts[1];
}

void Trainer::clear_window_sums() {
  state_.window_loss_sum = 0;
  state_.window_correct = 0;
  state_.window_samples = 0;
}

void Trainer::record_window() {
  drain();
  gather_window();
  const auto samples = static_cast<double>(state_.window_samples);
  state_.train_loss = state_.window_loss_sum / samples;
  state_.train_accuracy = static_cast<double>(state_.window_correct) / samples;
  if (recorder_) {
    recorder_->record("train", state_.step, epoch(), state_.train_seconds,
                      {{"loss", state_.train_loss},
                       {"accuracy", state_.train_accuracy},
                       {"rate", rate_at(epoch())},
                       {"momentum", recipe_.optimizer.momentum},
                       {"global_batch", static_cast<double>(global_batch_)},
                       {"images_per_second", speed_.per_second()}});
  }
  state_.window_steps = 0;
  clear_window_sums();
}

void Trainer::evaluate() {
  drain();
  const int64_t from_ns = clock_.now_ns();
  const Evaluation evaluation = (*evaluator_)(*model_);
  state_.eval_seconds += seconds_between(from_ns, clock_.now_ns());
  state_.evaluated_step = state_.step;
  state_.test_loss = evaluation.loss;
  state_.test_accuracy = evaluation.top1;
  state_.test_top5 = evaluation.top5;
  state_.best_accuracy = std::max(state_.best_accuracy, evaluation.top1);
  const double target = recipe_.train.target_accuracy;
  if (target > 0 && evaluation.top1 >= target && state_.target_seconds < 0) {
    state_.target_seconds = state_.train_seconds;
    state_.target_epoch = epoch();
  }
  if (recorder_) {
    recorder_->record("test", state_.step, epoch(), state_.train_seconds,
                      {{"loss", evaluation.loss}, {"accuracy", evaluation.top1}, {"top5", evaluation.top5}});
  }
  if (options_.log) {
    options_.log->info("epoch {:<6.4g} test accuracy {:.2f} %  (top-5 {:.2f} %)  test loss {:.4f}", epoch(),
                       100 * evaluation.top1, 100 * evaluation.top5, evaluation.loss);
  }
  speed_.skip_to(clock_.now_ns());
}

void Trainer::write_checkpoint() {
  drain();
  gather_window();
  if (keeps_files()) {
    recorder_->flush();
    const CheckpointRef checkpoint = checkpoints_.write(*model_, *optimizer_, state_);
    if (options_.log) options_.log->debug("wrote {}", checkpoint.folder.string());
  }
  if (group_.rank() != 0) clear_window_sums();  // rank 0 goes on with the sum, as it will after a resume
  group_.barrier();
  speed_.skip_to(clock_.now_ns());
}

bool Trainer::finished() {
  if (recipe_.train.target_accuracy > 0 && state_.target_seconds >= 0) {
    ending_ = "target";
  } else if (recipe_.train.max_steps > 0 && state_.step >= recipe_.train.max_steps) {
    ending_ = "max_steps";
  } else if (recipe_.train.epochs > 0 && state_.cursor_samples >= total_samples()) {
    ending_ = "epochs";
  } else if (stop_requested()) {
    ending_ = "interrupted";
  }
  return !ending_.empty();
}

// One rank may be told to stop; all must stop after the same step.
bool Trainer::stop_requested() {
  std::vector<int64_t> requests = {options_.stop.stop_requested() ? 1 : 0};
  sum_over_ranks(group_, view(requests));
  return requests[0] > 0;
}

void Trainer::show_progress() {
  if (!options_.progress) return;
  // A window that has only begun is noise: until it is half full the last one speaks.
  const bool window_speaks =
      state_.window_samples > 0 && (state_.train_loss < 0 || 2 * state_.window_steps >= recipe_.train.log_every_steps);
  const auto samples = static_cast<double>(state_.window_samples);
  const auto batch = static_cast<double>(global_batch_);
  options_.progress->update(
      {.epoch = epoch(),
       .epochs = total_epochs(),
       .step = state_.step,
       .steps = total_steps(),
       .loss = window_speaks ? state_.window_loss_sum / samples : state_.train_loss,
       .accuracy = window_speaks ? static_cast<double>(state_.window_correct) / samples : state_.train_accuracy,
       .test_accuracy = state_.test_accuracy,
       .images_per_second = speed_.per_second(),
       .seconds_left = static_cast<double>(total_steps() - state_.step) * batch / speed_.per_second()},
      clock_.now_ns());
}

double Trainer::epoch() const {
  return static_cast<double>(state_.cursor_samples) / static_cast<double>(data_.train->size());
}

uint64_t Trainer::total_samples() const {
  return static_cast<uint64_t>(std::ceil(recipe_.train.epochs * static_cast<double>(data_.train->size()) - 1e-6));
}

int64_t Trainer::total_steps() const {
  const uint64_t size = data_.train->size();
  const uint64_t per_epoch = (size + global_batch_ - 1) / global_batch_;  // the last batch of an epoch may be short
  const uint64_t samples = total_samples();
  const auto by_epochs =
      static_cast<int64_t>(samples / size * per_epoch + (samples % size + global_batch_ - 1) / global_batch_);
  if (recipe_.train.max_steps == 0) return by_epochs;
  return recipe_.train.epochs > 0 ? std::min(by_epochs, recipe_.train.max_steps) : recipe_.train.max_steps;
}

double Trainer::total_epochs() const {
  const double by_steps = static_cast<double>(recipe_.train.max_steps) * static_cast<double>(global_batch_) /
                          static_cast<double>(data_.train->size());
  if (recipe_.train.max_steps == 0) return recipe_.train.epochs;
  return recipe_.train.epochs > 0 ? std::min(recipe_.train.epochs, by_steps) : by_steps;
}

Summary Trainer::summarise() {
  Summary summary = {.recipe = recipe_.title,
                     .model = recipe_.model.name,
                     .data = recipe_.data.name,
                     .device = recipe_.train.device,
                     .engine = group_.engine(),
                     .version = kVersion,
                     .ending = ending_,
                     .parameters = parameter_count(*model_),
                     .ranks = group_.size(),
                     .threads = threads_per_rank(recipe_, group_),
                     .global_batch = static_cast<int64_t>(global_batch_),
                     .epochs = epoch(),
                     .steps = state_.step,
                     .samples = static_cast<int64_t>(state_.cursor_samples),
                     .train_seconds = state_.train_seconds,
                     .eval_seconds = state_.eval_seconds,
                     .loader_wait_seconds = static_cast<double>(loader_->waited_ns()) * 1e-9,
                     .images_per_second = state_.train_seconds > 0
                                              ? static_cast<double>(state_.cursor_samples) / state_.train_seconds
                                              : 0,
                     .train_loss = state_.train_loss,
                     .test_loss = state_.test_loss,
                     .test_accuracy = state_.test_accuracy,
                     .test_top5 = state_.test_top5,
                     .best_accuracy = state_.best_accuracy,
                     .target_seconds = state_.target_seconds,
                     .target_epoch = state_.target_epoch,
                     .weights_sha256 = weights_sha256(*model_),
                     .peak_rss_bytes = peak_rss_bytes()};
  if (keeps_files()) {
    recorder_->flush();
    replace_file(options_.run_folder.summary(), to_json(summary).dump(2) + "\n");
    replace_file(options_.run_folder.chart(), run_chart_svg(options_.run_folder.root));
  }
  return summary;
}

}  // namespace paceline
