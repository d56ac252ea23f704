#include "paceline/train/run_book.h"

#include <fmt/format.h>

#include <cmath>

#include "paceline/core/file.h"
#include "paceline/core/version.h"
#include "paceline/metrics/run_chart.h"
#include "paceline/train/divergence.h"
#include "paceline/train/loss.h"

namespace paceline {

RunBook::RunBook(const Recipe& recipe, RunState& state, const DatasetPair& data, RunLength length,
                 RunBookOptions options)
    : recipe_(recipe),
      state_(state),
      data_(data),
      length_(length),
      options_(std::move(options)),
      speed_(clock_.now_ns()) {}

void RunBook::open(int64_t step) { recorder_.emplace(options_.folder.root, step); }

void RunBook::record(const std::string& kind, const Recorder::Values& values) {
  if (recorder_) recorder_->record(kind, state_.step, epoch(), state_.train_seconds, values);
}

void RunBook::record_of(const std::string& kind, const std::string& which, const Recorder::Values& values) {
  if (recorder_) recorder_->record_of(kind, which, state_.step, epoch(), state_.train_seconds, values);
}

void RunBook::flush() {
  if (recorder_) recorder_->flush();
}

double RunBook::epoch() const {
  return static_cast<double>(state_.cursor_samples) / static_cast<double>(data_.train->size());
}

void RunBook::note_evaluation(const Evaluation& evaluation, const RunPlace& place, double seconds) {
  state_.eval_seconds += seconds;
  state_.evaluated_step = place.step;
  state_.test_loss = std::isfinite(evaluation.loss) ? evaluation.loss : -1;  // a state.json holds only what is
  state_.test_accuracy = evaluation.top1;
  state_.test_top5 = evaluation.top5;
  state_.best_accuracy = std::max(state_.best_accuracy, evaluation.top1);
  const double target = recipe_.train.target_accuracy;
  if (target > 0 && evaluation.top1 >= target && state_.target_seconds < 0) {
    state_.target_seconds = place.train_seconds;
    state_.target_epoch = place.epoch;
  }
  if (recorder_)
    recorder_->record("test", place.step, place.epoch, place.train_seconds,
                      {{"loss", evaluation.loss}, {"accuracy", evaluation.top1}, {"top5", evaluation.top5}});
  if (options_.log)
    options_.log->info(
        "epoch {:<6.4g} test accuracy {:.2f} %  {}test loss {:.4f}", place.epoch, 100 * evaluation.top1,
        top5_tells(data_.test->classes()) ? fmt::format("(top-5 {:.2f} %)  ", 100 * evaluation.top5) : "",
        std::abs(evaluation.loss));  // no "-nan"
}

void RunBook::require_finite_test() const {
  if (state_.test_loss >= 0) return;
  throw DivergenceError(
      fmt::format("step {} (epoch {:.4g}): the test loss is not finite: the run diverged, and no checkpoint was "
                  "written of its end; {}",
                  state_.step, epoch(), kAgainstDivergence));
}

void RunBook::show_progress(double loss, double accuracy, int64_t steps) {
  if (!options_.progress) return;
  const double left =
      length_.epochs * static_cast<double>(data_.train->size()) - static_cast<double>(state_.cursor_samples);
  options_.progress->update({.epoch = epoch(),
                             .epochs = length_.epochs,
                             .step = state_.step,
                             .steps = steps,
                             .loss = loss,
                             .accuracy = accuracy,
                             .test_accuracy = state_.test_accuracy,
                             .images_per_second = samples_per_second(),
                             .seconds_left = left / samples_per_second()},
                            clock_.now_ns());
}

void RunBook::end_progress() {
  if (options_.progress) options_.progress->finish();
}

Summary RunBook::summary(const std::string& ending) const {
  return {.recipe = recipe_.title,
          .model = recipe_.model.name,
          .data = recipe_.data.name,
          .device = recipe_.train.device,
          .precision = recipe_.train.precision,
          .codec = recipe_.comm.codec,
          .policy = recipe_.sync.policy,
          .optimizer = recipe_.optimizer.name,
          .version = kVersion,
          .ending = ending,
          .classes = data_.test->classes(),
          .rate = recipe_.optimizer.rate,
          .seed = recipe_.train.seed,
          .epochs = epoch(),
          .steps = state_.step,
          .samples = static_cast<int64_t>(state_.cursor_samples),
          .skipped_steps = state_.loss_scale.skipped_steps,
          .train_seconds = state_.train_seconds,
          .eval_seconds = state_.eval_seconds,
          .images_per_second =
              state_.train_seconds > 0 ? static_cast<double>(state_.cursor_samples) / state_.train_seconds : 0,
          .train_loss = state_.train_loss,
          .test_loss = state_.test_loss,
          .test_accuracy = state_.test_accuracy,
          .test_top5 = state_.test_top5,
          .best_accuracy = state_.best_accuracy,
          .target_seconds = state_.target_seconds,
          .target_epoch = state_.target_epoch,
          .peak_rss_bytes = peak_rss_bytes()};
}

void RunBook::leave(const Summary& summary) {
  flush();
  replace_file(options_.folder.summary(), to_json(summary).dump(2) + "\n");
  replace_file(options_.folder.chart(), run_chart_svg(options_.folder.root, chart_title(recipe_)));
}

}  // namespace paceline
