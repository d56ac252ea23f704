#include "paceline/train/trainer.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/core/file.h"
#include "paceline/models/state.h"
#include "paceline/optim/weight_average.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/train/assemble.h"
#include "paceline/train/batch_search.h"
#include "paceline/train/device_settings.h"
#include "paceline/train/equal_ranks.h"
#include "paceline/train/evaluation_statistics.h"
#include "paceline/train/finite_model.h"
#include "paceline/train/group_trace.h"
#include "paceline/train/run_remarks.h"
#include "paceline/train/slow_down.h"

namespace paceline {
namespace {

bool last_iteration(const Recipe& recipe) { return recipe.batch_norm.statistics == "last_iteration"; }

}  // namespace

Trainer::Trainer(Recipe recipe, Group& group, TrainerOptions options)
    : earlier_(find_earlier_run(options.run_folder, options.resume, group)),
      recipe_(with_batch_that_fits(equal_recipe(std::move(recipe), group), options.catalog, group,
                                   earlier_.recipe ? earlier_.recipe->batch.local : 0,
                                   group.rank() == 0 ? options.log : nullptr)),
      group_(group),
      options_(std::move(options)),
      device_(open_device(recipe_, group_)),
      data_(open_equal_data(recipe_, options_.catalog, group_)),
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
      divergence_(group_),
      strategy_(make_step_strategy({.recipe = recipe_,
                                    .catalog = options_.catalog,
                                    .model = model_,
                                    .optimizer = *optimizer_,
                                    .group = group_,
                                    .scaler = scaler_.get(),
                                    .timeline = timeline_.get(),
                                    .divergence = divergence_,
                                    .stored_plan = earlier_.plan,
                                    .stop = options_.stop,
                                    .as_on_device = options_.as_on_device})),
      share_(last_iteration(recipe_) ? 1 : BatchNorm2d::kMomentum),
      checkpoints_({.recipe = recipe_,
                    .earlier = earlier_,
                    .group = group_,
                    .model = *model_,
                    .optimizer = *optimizer_,
                    .strategy = *strategy_,
                    .share = share_,
                    .scaler = scaler_.get(),
                    .data_size = data_.train->size(),
                    .folder = options_.run_folder,
                    .log = log()}),
      window_(state_, group_),
      costs_(group_, host_name(), recipe_.sync.slowdown),
      book_(
          recipe_, state_, data_, length_,
          {.folder = options_.run_folder, .log = log(), .progress = group_.rank() == 0 ? options_.progress : nullptr}) {
  settle_device(recipe_, device_);
  state_.seed = recipe_.train.seed;
  at::set_num_threads(threads_per_rank(recipe_, group_));
}

Trainer::~Trainer() = default;

Summary Trainer::run() {
  begin();
  try {
    make_all_steps();
  } catch (const DivergenceError& error) {
    book_.flush();
    if (log())
      log_layers(layers_seen_, measure_layers(parameters_of(*model_), scaler_ ? scaler_->gradient_scale() : 1), *log());
    TrainingError explained(error.what() + checkpoints_.give_up(state_));
    if (group_.rank() != 0) explained.set_told();  // rank 0 tells; the others know no more
    throw explained;
  }
  book_.end_progress();
  if (timeline_) write_group_trace(*timeline_, group_, options_.trace);
  return summarise();
}

void Trainer::begin() {
  state_ = checkpoints_.resume(state_);
  window_.resume();
  if (log() && options_.resume && !earlier_.from)
    log()->info("no {} in {}{}: starting from the beginning",
                earlier_.damaged.empty() ? "checkpoint" : "intact checkpoint",
                options_.run_folder.checkpoints().string(), earlier_.damaged.empty() ? " yet" : "");
  if (log())
    log_run({.recipe = recipe_,
             .group = group_,
             .strategy = *strategy_,
             .length = length_,
             .parameters = parameter_count(*model_),
             .data_size = data_.train->size(),
             .batch = batch_.at(book_.epoch())},
            *log());
  batches_ = open_training_batches(recipe_, data_, batch_, group_, state_.cursor_samples, device_);
  strategy_->begin();
  evaluator_ = std::make_unique<Evaluator>(data_, recipe_, group_, device_, options_.stop);
  if (keeps_files()) {
    make_directories(options_.run_folder.root);
    if (state_.step > 0) checkpoints_.report_changes();
    const RunTexts texts = checkpoints_.texts();
    replace_file(options_.run_folder.recipe(), texts.recipe);
    if (group_.size() > 1) replace_file(options_.run_folder.plan(), texts.plan);
    // Of the part before: this one may not come to its end.
    if (const std::string why_not = remove_path(options_.run_folder.summary()); !why_not.empty() && log())
      log()->warning("{}", why_not);
    book_.open(state_.step);
  }
  model_->train();
  book_.pause();
}

void Trainer::make_all_steps() {
  while (!finished()) {
    make_step();
    record_due_ |= due_.record || due_.end;
    // Ranks that train alone are not made to wait for a line of metrics.
    if (record_due_ && strategy_->ranks_are_equal()) record_window();
    if (due_.evaluation) evaluate();
    write_due_checkpoint();
    book_.show_progress(window_.shown_loss(recipe_.train.log_every_steps),
                        window_.shown_accuracy(recipe_.train.log_every_steps), length_.steps);
  }
  if (ending_ != "interrupted") {
    if (window_.steps() > 0) record_window();
    if (state_.evaluated_step != state_.step) evaluate();
  }
  if (ending_ != "interrupted") {  // nor during the evaluation
    if (state_.test_loss < 0)
      require_finite(*model_, strategy_->under_way(), group_, book_.here());  // then their name tells more
    book_.require_finite_test();
  }
  write_checkpoint();
  if (ending_ != "interrupted") checkpoints_.trust_newest();  // the test has gone well with it
  book_.show_progress(window_.shown_loss(recipe_.train.log_every_steps),
                      window_.shown_accuracy(recipe_.train.log_every_steps), length_.steps);
}

void Trainer::make_step() {
  const int64_t from_ns = clock_.now_ns();
  const double epoch_before = book_.epoch();
  const TrainingBatch& batch = batches_->next();
  const int64_t loaded_ns = clock_.now_ns();
  const double slept_s = options_.stop.stop_requested() ? 0 : slow_down(recipe_, group_.rank(), computed_s_);
  share_statistics(batch);
  if (Codec* const codec = strategy_->reducer().codec()) codec->set_epoch(epoch_before);
  const StepInputs inputs = next_inputs(batch);
  StepMaker& maker = strategy_->maker();
  if (maker.needs_known_past(inputs)) drain();
  const StepOutcome outcome = maker.make(inputs);
  stop_asked_ = outcome.stop_asked;
  window_.add(outcome, {.number = state_.step + 1, .cursor_samples = state_.cursor_samples});
  state_.step += 1;
  state_.cursor_samples += batch.global_count;
  note_what_is_due(epoch_before);
  if (due_.end) strategy_->apply_rest(inputs);
  if (outcome.skipped && scaler_ && log())
    log()->debug("step {} was skipped: its gradients overflowed; the loss scale is now {}", state_.step,
                 scaler_->state().scale);
  if (!outcome.layers.empty()) {
    layers_seen_ = outcome.layers;
    for (const LayerFigures& layer : layers_seen_) book_.record_of("layer", layer.name, layer.values());
  }
  const bool meets = strategy_->meets_after(
      {.step = state_.step, .steps = length_.steps, .needs_equal = due_.end || due_.evaluation || due_.checkpoint});
  // Reading an outcome waits for the device, which a diagnosis has done; the CPU is always done.
  if (!maker.outcomes_come_late() || inputs.diagnosed || due_.record || meets) drain();
  if (meets) stop_asked_ |= strategy_->meet();
  const Reducer::Cost cost = strategy_->take_cost();
  const int64_t now_ns = clock_.now_ns();
  const double waited_s = 1e-9 * static_cast<double>(cost.exposed_ns);
  const double computed_s = seconds_between(loaded_ns, now_ns) - waited_s;
  computed_s_ = computed_s - slept_s;
  costs_.add({.steps = 1,
              .step_s = seconds_between(from_ns, now_ns),
              .compute_s = computed_s,
              .communication_s = 1e-9 * static_cast<double>(cost.busy_ns),
              .waiting_s = waited_s},
             static_cast<int64_t>(batch.count));
  state_.train_seconds += seconds_between(from_ns, now_ns);
  book_.note_samples(batch.global_count);
}

// Ranks may rest and come back only where ranks are filled; elsewhere shares differ in a short batch at most, and
// layers keep their momentum, which a recorded step has for good.
void Trainer::share_statistics(const TrainingBatch& batch) {
  if (recipe_.batch_norm.sync && batch.global_count < static_cast<size_t>(group_.size()))
    recipe_.refuse("batch_norm.sync",
                   fmt::format("a step of {} samples leaves some of {} ranks without any, which have "
                               "no statistics to share; choose a batch that divides the {} samples",
                               batch.global_count, group_.size(), data_.train->size()));
  share_.begin_step(static_cast<double>(batch.count), static_cast<double>(batch.global_count));
  if (recipe_.batch.fill == 0 || last_iteration(recipe_)) return;
  for (BatchNorm2d* layer : batch_norm_layers(*model_)) layer->set_momentum(share_.momentum());
}

StepInputs Trainer::next_inputs(const TrainingBatch& batch) const {
  const int64_t every_steps = recipe_.train.diagnose_every_steps;
  const bool diagnosed = every_steps > 0 && (state_.step + 1) % every_steps == 0;
  return {.batch = batch,
          .global_count = strategy_->divisor(batch),
          .step = state_.step,
          .rank = group_.rank(),
          .epoch = book_.epoch(),
          .rate = rate_(book_.epoch()),
          .momentum = momentum_(book_.epoch()),
          .stop = options_.stop,
          .diagnose = diagnosed && book_.is_open(),  // rank 0 looks; all wait with it, and know what it knows
          .diagnosed = diagnosed};
}

void Trainer::note_what_is_due(double epoch_before) {
  const double epoch = book_.epoch();
  due_ = {.evaluation = passes_multiple(epoch_before, epoch, recipe_.train.eval_every_epochs),
          .checkpoint = checkpoint_is_due(recipe_.checkpoint, {state_.step - 1, epoch_before}, {state_.step, epoch}),
          .record = rhythm_.is_due(state_.step, passes_multiple(epoch_before, epoch, 1)),
          .end = !length_.ending(recipe_.train, state_.step, state_.cursor_samples).empty()};
}

void Trainer::drain() {
  if (const auto bad = window_.drain())
    diverge(bad->place, bad->loss_finite ? "a gradient is not finite" : "the loss is not finite",
            /*all_know=*/!bad->gradients_finite);
  try {
    strategy_->maker().settle();
    if (scaler_) state_.loss_scale = scaler_->state();
  } catch (const TrainingError& too_many) {
    diverge(window_.last(), too_many.what(), /*all_know=*/true);
  }
  const bool is_skipping = scaler_ && state_.loss_scale.skips_in_a_row > 0;  // which tells nothing
  if (!is_skipping && !divergence_.is_noted()) checkpoints_.trust(state_);
}

void Trainer::meet() {
  drain();
  strategy_->settle();
  if (!strategy_->findings_are_shared()) divergence_.tell();
}

void Trainer::evaluate() {
  meet();
  const int64_t from_ns = clock_.now_ns();
  std::optional<Evaluation> evaluation;
  {
    const AveragedWeights averaged(optimizer_->weight_average());
    const EvaluationStatistics averages = statistics();
    evaluation = (*evaluator_)(*model_);
  }
  if (evaluation)
    book_.note_evaluation(*evaluation, book_.here(), seconds_between(from_ns, clock_.now_ns()));
  else
    ending_ = "interrupted";
  book_.pause();
}

bool Trainer::finished() {
  if (!ending_.empty()) return true;
  ending_ = book_.reached_target() ? "target" : length_.ending(recipe_.train, state_.step, state_.cursor_samples);
  if (ending_.empty() && stop_asked_) ending_ = "interrupted";
  return !ending_.empty();
}

void Trainer::record_window() {
  meet();
  const bool counts = window_.close();
  record_due_ = false;
  const RunCosts::Window window = costs_.close_window();
  Recorder::Values values = {{"loss", counts ? state_.train_loss : NAN},
                             {"accuracy", counts ? state_.train_accuracy : NAN},
                             {"rate", optimizer_->rate_for(rate_(book_.epoch()))},
                             {"momentum", momentum_(book_.epoch())},
                             {"global_batch", static_cast<double>(batch_.at(book_.epoch()))},
                             {"images_per_second", book_.samples_per_second()},
                             {"efficiency", window.costs.efficiency},
                             {"overlap", window.costs.overlap},
                             {"compute_ms", 1e3 * window.costs.compute_per_step_s},
                             {"communication_ms", 1e3 * window.costs.communication_per_step_s},
                             {"waiting_ms", 1e3 * window.costs.waiting_per_step_s}};
  if (scaler_) {
    values.emplace_back("loss_scale", state_.loss_scale.scale);
    values.emplace_back("skipped_steps", static_cast<double>(state_.loss_scale.skipped_steps));
  }
  book_.record("train", values);
  if (!log() || !window.straggler) return;
  if (recipe_.sync.slowdown.empty())
    log()->warning("{}", *window.straggler);
  else
    log()->info("a rank is slower than the others, as sync.slowdown asks");
}

// Not while steps are skipped: a run that has diverged skips all of them, and would push out the checkpoints of before.
void Trainer::write_due_checkpoint() {
  checkpoint_due_ |= due_.checkpoint;
  if (!checkpoint_due_) return;
  if (scaler_) meet();  // then it is known
  if (scaler_ && state_.loss_scale.skips_in_a_row > 0) return;
  checkpoint_due_ = false;
  write_checkpoint();
}

void Trainer::write_checkpoint() {
  meet();
  require_finite(*model_, strategy_->under_way(), group_, book_.here());
  window_.gather_for_checkpoint([&] {
    book_.flush();
    checkpoints_.write(state_,
                       [&] { return std::unique_ptr<EvaluationStatistics>(new EvaluationStatistics(statistics())); });
  });
  book_.pause();
}

// What a device has done is known some steps later. Where all ranks know, and none of these steps has changed the
// weights, the first one is made again, to see where it began. What one rank has found alone it keeps until all have
// heard of it.
void Trainer::diverge(const StepPlace& place, const std::string& what, bool all_know) {
  if (strategy_->is_in_step() && all_know) {
    state_.step = place.number - 1;
    state_.cursor_samples = place.cursor_samples;
    batches_.reset();  // before the next ones are opened: a data set on the device is there once
    batches_ = open_training_batches(recipe_, data_, batch_, group_, state_.cursor_samples, device_);
    strategy_->maker().fail_again(next_inputs(batches_->next()), what);
  }
  const double epoch = static_cast<double>(place.cursor_samples) / static_cast<double>(data_.train->size());
  const std::string text =
      fmt::format("step {} (epoch {:.4g}): {}: the run diverged; {}", place.number, epoch, what, kAgainstDivergence);
  if (group_.size() == 1) throw DivergenceError(text);
  divergence_.note(text);
}

Summary Trainer::summarise() {
  Summary summary = book_.summary(ending_);
  summary.engine = group_.engine();
  summary.parameters = parameter_count(*model_);
  summary.ranks = group_.size();
  summary.threads = at::get_num_threads();
  summary.global_batch = static_cast<int64_t>(batch_.at(book_.epoch()));
  summary.graph_steps = strategy_->maker().graph_steps();
  summary.loader_wait_seconds = static_cast<double>(batches_->waited_ns()) * 1e-9;
  summary.costs = costs_.total();
  {
    const EvaluationStatistics averages = statistics();
    summary.weights_sha256 = weights_sha256(*model_);
  }
  if (keeps_files()) book_.leave(summary);
  return summary;
}

}  // namespace paceline
