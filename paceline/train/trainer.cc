#include "paceline/train/trainer.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "paceline/collectives/codec_on_cluster.h"
#include "paceline/collectives/platforms.h"
#include "paceline/core/file.h"
#include "paceline/core/number_text.h"
#include "paceline/data/sampler.h"
#include "paceline/optim/lars_share.h"
#include "paceline/optim/weight_average.h"
#include "paceline/precision/autocast.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/train/assemble.h"
#include "paceline/train/batch_search.h"
#include "paceline/train/device_settings.h"
#include "paceline/train/equal_ranks.h"
#include "paceline/train/evaluation_statistics.h"
#include "paceline/train/loss.h"

namespace paceline {
namespace {

// Of the run that goes on, on rank 0. A new one would mix its files with those of the run that is there.
EarlierRun earlier_run(const TrainerOptions& options, const Group& group) {
  const RunFolder& folder = options.run_folder;
  if (group.rank() != 0 || folder.root.empty()) return {};
  if (options.resume) {
    const AtWork at_work(group.monitor(), Chore::checkpoint);
    return find_earlier_run(folder);
  }
  if (!CheckpointStore(folder.checkpoints(), /*keep=*/1).all().empty())
    throw UsageError(fmt::format("{} holds checkpoints of a run already; resume that, or choose another folder",
                                 folder.root.string()));
  return {};
}

// Keys that are given and need several ranks. A recipe holds for any number of them, so that is no mistake.
std::string keys_about_ranks(const Recipe& recipe) {
  std::vector<std::string> keys;
  for (const auto& [key, place] : recipe.written) {
    const bool about_ranks = key.starts_with("comm.") || key == "batch.fill" || key == "batch.fills" ||
                             key == "batch_norm.sync" || key == "sync.interval";
    if (about_ranks) keys.push_back(key);
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

Recipe of_all_ranks(Recipe recipe, Group& group) {
  require_equal_recipes(recipe, group);
  return recipe;
}

DatasetPair of_all_ranks(DatasetPair data, Group& group) {
  require_equal_data(data, group);
  return data;
}

// A rank may be through much later than the others, as the first one of a host that decodes the images.
DatasetPair open_data_at_work(const Recipe& recipe, const Catalog& catalog, const Group& group) {
  const AtWork at_work(group.monitor(), Chore::data);
  return open_data(recipe, catalog);
}

bool last_iteration(const Recipe& recipe) { return recipe.batch_norm.statistics == "last_iteration"; }

}  // namespace

Trainer::Trainer(Recipe recipe, Group& group, TrainerOptions options)
    : earlier_(earlier_run(options, group)),
      recipe_(with_batch_that_fits(of_all_ranks(std::move(recipe), group), options.catalog, group,
                                   earlier_.recipe ? earlier_.recipe->batch.local : 0,
                                   group.rank() == 0 ? options.log : nullptr)),
      group_(group),
      options_(std::move(options)),
      device_(open_device(recipe_, group_)),
      data_(of_all_ranks(open_data_at_work(recipe_, options_.catalog, group_), group_)),
      model_(placed_on(device_, build_model(recipe_, options_.catalog, *data_.train))),
      batch_(batch_schedule(recipe_, group_.size(), data_.train->size())),
      optimizer_(with_rate_of(recipe_, *model_, base_rate(recipe_, static_cast<int64_t>(batch_.at(0))),
                              build_optimizer(recipe_, options_.catalog, *model_, group_.size()))),
      rate_(rate_schedule(recipe_, static_cast<int64_t>(batch_.at(0)))),
      momentum_(codec_has_the_momentum(recipe_, group_.size()) ? constant(0) : momentum_schedule(recipe_, batch_)),
      length_(run_length(recipe_.train, batch_, data_.train->size())),
      rhythm_{.every_steps = recipe_.train.log_every_steps,
              .epoch_steps = static_cast<int64_t>(steps_in(batch_, data_.train->size(), data_.train->size())),
              .steps = length_.steps},
      scaler_(build_loss_scaler(recipe_, device_)),
      timeline_(options_.trace.empty() ? nullptr : std::make_unique<Timeline>()),
      own_group_(own_step_group(recipe_, group_)),
      reducer_(build_reducer(recipe_, options_.catalog, *model_, step_group(), timeline_.get(), earlier_.plan)),
      average_(build_replica_average(recipe_, *model_, *optimizer_, group_, timeline_.get(), earlier_.plan)),
      stale_(build_stale_sum(recipe_, *model_, group_, timeline_.get(), earlier_.plan)),
      share_(last_iteration(recipe_) ? 1 : BatchNorm2d::kMomentum),
      checkpoints_(options_.run_folder.checkpoints(), recipe_.checkpoint.keep, log()),
      group_checkpoint_(checkpoints_, group_, *model_, *optimizer_, *reducer_, share_, stale_.get()),
      window_(state_, group_),
      costs_(group_, host_name(), recipe_.sync.slowdown),
      speed_(clock_.now_ns()) {
  settle_device(recipe_, device_);
  synchronise_batch_norm(recipe_, *model_, group_, exchange_ns_);
  state_.seed = recipe_.train.seed;
  at::set_num_threads(threads_per_rank(recipe_, group_));
}

Trainer::~Trainer() = default;

Summary Trainer::run() {
  begin();
  try {
    make_all_steps();
  } catch (const DivergenceError& error) {
    explain(error);
  }
  show_progress();
  if (options_.progress) options_.progress->finish();
  write_trace();
  return summarise();
}

void Trainer::make_all_steps() {
  while (!finished()) {
    make_step();
    record_due_ |= due_.record;
    if (record_due_ && together_) record_window();  // ranks alone are not made to wait for a line of metrics
    if (due_.evaluation) evaluate();
    write_due_checkpoint();
    show_progress();
  }
  if (ending_ != "interrupted") {
    if (window_.steps() > 0) record_window();
    if (state_.evaluated_step != state_.step) evaluate();
    require_finite_test();
  }
  write_checkpoint();
  if (ending_ != "interrupted" && keeps_files()) checkpoints_.trust_newest();  // the test has gone well with it
}

void Trainer::begin() {
  resume();
  if (log()) {
    log()->info("training {} ({} parameters) on {}: {} images, {:.4g} epoch{} in {} step{} of {} samples",
                recipe_.model.name, with_commas(static_cast<uint64_t>(parameter_count(*model_))), recipe_.data.name,
                with_commas(data_.train->size()), length_.epochs, length_.epochs == 1 ? "" : "s",
                with_commas(static_cast<uint64_t>(length_.steps)), length_.steps == 1 ? "" : "s",
                with_commas(global_batch()));
    if (group_.size() > 1)
      log()->info("{} ranks over {}, {} thread{} each; {}", group_.size(), group_.engine(), at::get_num_threads(),
                  at::get_num_threads() == 1 ? "" : "s", plan_text());
    if (const std::string keys = keys_about_ranks(recipe_); group_.size() == 1 && !keys.empty())
      log()->info("one rank: {} have no effect", keys);
    warn_of_codec();
    warn_of_lars();
  }
  open_batches();
  step_ = std::make_unique<TrainStep>(model_, *optimizer_, average_ ? *own_group_ : group_, recipe_, *reducer_,
                                      timeline_.get(), scaler_.get(), stale_.get());
  const bool untold = options_.as_on_device || DeviceStep::why_not(recipe_, step_group().size()).empty();
  if (untold && !stale_ && reducer_->state().empty())
    device_step_ = std::make_unique<DeviceStep>(model_, *optimizer_, recipe_, *reducer_, scaler_.get());
  evaluator_ = std::make_unique<Evaluator>(data_, recipe_, group_, device_);
  if (keeps_files()) {
    make_directories(options_.run_folder.root);
    if (state_.step > 0) report_changes();
    replace_file(options_.run_folder.recipe(), texts().recipe);
    if (group_.size() > 1) replace_file(options_.run_folder.plan(), texts().plan);
    // Of the part before: this one may not come to its end.
    if (const std::string why_not = remove_path(options_.run_folder.summary()); !why_not.empty() && log())
      log()->warning("{}", why_not);
    recorder_ = std::make_unique<Recorder>(options_.run_folder.root, state_.step);
  }
  model_->train();
  speed_.skip_to(clock_.now_ns());
}

// It is no mistake to train with a codec that costs more than it saves (to see what it does to the accuracy, say); but
// nobody should wait longer without knowing.
void Trainer::warn_of_codec() {
  const Codec* const codec = reducer_->codec();
  if (codec == nullptr || !device_.is_cpu()) return;  // what packing costs is measured on the CPU
  constexpr size_t kProbe = 1 << 18;
  const CodecVerdict verdict = judge_codec_on(cluster_of(group_), *codec, measured_seconds_per_byte(*codec, kProbe),
                                              sizeof(float) * static_cast<double>(parameter_count(*model_)));
  if (!verdict.pays) log()->warning("comm.codec: {}", verdict.text);
}

void Trainer::warn_of_lars() {
  if (recipe_.optimizer.name != "lars" && recipe_.optimizer.name != "hybrid") return;
  const double rate = highest_rate(recipe_, static_cast<int64_t>(batch_.at(0)));
  if (const auto warning = warning_of_lars_share(rate, recipe_.optimizer.eta)) log()->warning("{}", *warning);
}

void Trainer::open_batches() {
  const LoaderOptions options = {.global_batch = batch_,
                                 .rank = group_.rank(),
                                 .ranks = group_.size(),
                                 .fill = fill_schedule(recipe_),
                                 .threads = static_cast<int>(recipe_.data.loader_threads),
                                 .prefetch_batches = static_cast<int>(recipe_.data.prefetch_batches),
                                 .seed = recipe_.train.seed,
                                 .augmentation = {.crop_padding = recipe_.augment.crop_padding,
                                                  .flip = recipe_.augment.flip,
                                                  .cutout = recipe_.augment.cutout}};
  const ImageFormat format = {.dtype = autocast_type(recipe_.train.precision).value_or(torch::kFloat32),
                              .channels_last = true};
  batches_ = make_batches({data_.train, data_.normalisation, options, state_.cursor_samples}, device_, format,
                          recipe_.data.resident);
}

void Trainer::make_step() {
  const int64_t from_ns = clock_.now_ns();
  const double epoch_before = epoch();
  const TrainingBatch& batch = batches_->next();
  const int64_t loaded_ns = clock_.now_ns();
  const double slept_s = slow_down();
  if (recipe_.batch_norm.sync && batch.global_count < static_cast<size_t>(group_.size()))
    recipe_.refuse("batch_norm.sync",
                   fmt::format("a step of {} samples leaves some of {} ranks without any, which have "
                               "no statistics to share; choose a batch that divides the {} samples",
                               batch.global_count, group_.size(), data_.train->size()));
  share_statistics(batch);
  if (reducer_->codec() != nullptr) reducer_->codec()->set_epoch(epoch());
  const StepInputs inputs = next_inputs(batch);
  const bool diagnosed = diagnosis_is_due();  // rank 0 looks; all wait with it, and know what it knows
  const bool waits = !device_step_ || diagnosed;
  if (waits && device_step_) drain();  // the loss scale must be known
  const StepOutcome outcome = take_step(inputs, waits);
  stop_asked_ = !average_ && outcome.stop_asked;
  window_.add(outcome, {.number = state_.step + 1, .cursor_samples = state_.cursor_samples});
  state_.step += 1;
  state_.cursor_samples += batch.global_count;
  note_what_is_due(epoch_before);
  if (due_.end)
    while (step_->apply_next(inputs)) {
    }
  if (scaler_ && waits) state_.loss_scale = scaler_->state();
  if (outcome.skipped && scaler_ && log())
    log()->debug("step {} was skipped: its gradients overflowed; the loss scale is now {}", state_.step,
                 state_.loss_scale.scale);
  if (!outcome.layers.empty()) record_layers(outcome.layers);
  // Reading an outcome waits for the device, which a diagnosis has done; the CPU is always done.
  const bool done = !outcomes_come_late() || diagnosed;
  if (done || due_.record) drain();
  if (average_) {
    since_average_.own += static_cast<int64_t>(batch.count);
    since_average_.all += static_cast<int64_t>(batch.global_count);
    together_ = averages_now();
    if (together_) average_replicas();
  }
  const int64_t now_ns = clock_.now_ns();
  const Reducer::Cost cost = take_cost();
  const double computed_s = seconds_between(loaded_ns, now_ns) - 1e-9 * static_cast<double>(cost.exposed_ns);
  computed_s_ = computed_s - slept_s;
  costs_.add({.steps = 1,
              .step_s = seconds_between(from_ns, now_ns),
              .compute_s = computed_s,
              .communication_s = 1e-9 * static_cast<double>(cost.busy_ns),
              .waiting_s = 1e-9 * static_cast<double>(cost.exposed_ns)},
             static_cast<int64_t>(batch.count));
  state_.train_seconds += seconds_between(from_ns, now_ns);
  speed_.add(static_cast<double>(batch.global_count), now_ns);
}

// Ranks may rest and come back only where ranks are filled; elsewhere shares differ in a short batch at most, and
// layers keep their momentum, which a recorded step has for good.
void Trainer::share_statistics(const TrainingBatch& batch) {
  share_.begin_step(static_cast<double>(batch.count), static_cast<double>(batch.global_count));
  if (recipe_.batch.fill == 0 || last_iteration(recipe_)) return;
  for (BatchNorm2d* layer : batch_norm_layers(*model_)) layer->set_momentum(share_.momentum());
}

StepInputs Trainer::next_inputs(const TrainingBatch& batch) const {
  return {.batch = batch,
          .global_count = static_cast<int64_t>(average_ ? batch.count : batch.global_count),
          .step = state_.step,
          .rank = group_.rank(),
          .epoch = epoch(),
          .rate = rate_(epoch()),
          .momentum = momentum_(epoch()),
          .stop = options_.stop,
          .diagnose = recorder_ && diagnosis_is_due()};
}

bool Trainer::diagnosis_is_due() const {
  const int64_t every_steps = recipe_.train.diagnose_every_steps;
  return every_steps > 0 && (state_.step + 1) % every_steps == 0;
}

void Trainer::note_what_is_due(double epoch_before) {
  const int64_t every_steps = recipe_.checkpoint.every_steps;
  const bool ends_epoch = passes_multiple(epoch_before, epoch(), 1);
  due_ = {.evaluation = passes_multiple(epoch_before, epoch(), recipe_.train.eval_every_epochs),
          .checkpoint = every_steps > 0 ? state_.step % every_steps == 0 : ends_epoch,
          .record = rhythm_.is_due(state_.step, ends_epoch),
          .end = reached_end()};
}

// Waits for the device, and reads what became of the steps there.
void Trainer::drain() {
  if (const auto bad = window_.drain())
    diverge(bad->place, bad->loss_finite ? "a gradient is not finite" : "the loss is not finite",
            /*all_know=*/!bad->gradients_finite);
  if (scaler_ && device_step_) {
    try {
      scaler_->settle();
      state_.loss_scale = scaler_->state();
    } catch (const TrainingError& too_many) {
      diverge(window_.last(), too_many.what(), /*all_know=*/true);
    }
  }
  trust_checkpoint();
}

void Trainer::evaluate() {
  meet();
  const int64_t from_ns = clock_.now_ns();
  Evaluation evaluation;
  {
    const AveragedWeights averaged(optimizer_->weight_average());
    const EvaluationStatistics statistics(*model_, recipe_, data_, group_, share_.weight());
    evaluation = (*evaluator_)(*model_);
  }
  state_.eval_seconds += seconds_between(from_ns, clock_.now_ns());
  state_.evaluated_step = state_.step;
  state_.test_loss = std::isfinite(evaluation.loss) ? evaluation.loss : -1;  // a state.json holds only what is
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
  if (log()) {
    const bool tells = top5_tells(data_.test->classes());
    log()->info("epoch {:<6.4g} test accuracy {:.2f} %  {}test loss {:.4f}", epoch(), 100 * evaluation.top1,
                tells ? fmt::format("(top-5 {:.2f} %)  ", 100 * evaluation.top5) : "",
                std::abs(evaluation.loss));  // no "-nan"
  }
  speed_.skip_to(clock_.now_ns());
}

bool Trainer::reached_end() const {
  return (recipe_.train.max_steps > 0 && state_.step >= recipe_.train.max_steps) ||
         (recipe_.train.epochs > 0 && state_.cursor_samples >= length_.samples);
}

bool Trainer::finished() {
  if (recipe_.train.target_accuracy > 0 && state_.target_seconds >= 0) {
    ending_ = "target";
  } else if (recipe_.train.max_steps > 0 && state_.step >= recipe_.train.max_steps) {
    ending_ = "max_steps";
  } else if (recipe_.train.epochs > 0 && state_.cursor_samples >= length_.samples) {
    ending_ = "epochs";
  } else if (stop_asked_) {
    ending_ = "interrupted";
  }
  return !ending_.empty();
}

void Trainer::show_progress() {
  if (!options_.progress || group_.rank() != 0) return;
  const double samples_left =
      length_.epochs * static_cast<double>(data_.train->size()) - static_cast<double>(state_.cursor_samples);
  options_.progress->update({.epoch = epoch(),
                             .epochs = length_.epochs,
                             .step = state_.step,
                             .steps = length_.steps,
                             .loss = window_.shown_loss(recipe_.train.log_every_steps),
                             .accuracy = window_.shown_accuracy(recipe_.train.log_every_steps),
                             .test_accuracy = state_.test_accuracy,
                             .images_per_second = speed_.per_second(),
                             .seconds_left = samples_left / speed_.per_second()},
                            clock_.now_ns());
}

double Trainer::epoch() const {
  return static_cast<double>(state_.cursor_samples) / static_cast<double>(data_.train->size());
}

}  // namespace paceline
