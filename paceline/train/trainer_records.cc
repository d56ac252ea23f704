// What a Trainer writes down of its run: metrics, the trace, the summary.
#include <ATen/Parallel.h>

#include <cmath>

#include "paceline/collectives/group_text.h"
#include "paceline/core/file.h"
#include "paceline/core/version.h"
#include "paceline/metrics/run_chart.h"
#include "paceline/metrics/timeline_bytes.h"
#include "paceline/models/state.h"
#include "paceline/train/assemble.h"
#include "paceline/train/evaluation_statistics.h"
#include "paceline/train/trainer.h"

namespace paceline {

void Trainer::record_window() {
  meet();
  const bool counts = window_.close();
  record_due_ = false;
  const RunCosts::Window costs = costs_.close_window();
  if (recorder_) {
    Recorder::Values values = {{"loss", counts ? state_.train_loss : NAN},
                               {"accuracy", counts ? state_.train_accuracy : NAN},
                               {"rate", optimizer_->rate_for(rate_(epoch()))},
                               {"momentum", momentum_(epoch())},
                               {"global_batch", static_cast<double>(global_batch())},
                               {"images_per_second", speed_.per_second()},
                               {"efficiency", costs.costs.efficiency},
                               {"overlap", costs.costs.overlap},
                               {"compute_ms", 1e3 * costs.costs.compute_per_step_s},
                               {"communication_ms", 1e3 * costs.costs.communication_per_step_s},
                               {"waiting_ms", 1e3 * costs.costs.waiting_per_step_s}};
    if (scaler_) {
      values.emplace_back("loss_scale", state_.loss_scale.scale);
      values.emplace_back("skipped_steps", static_cast<double>(state_.loss_scale.skipped_steps));
    }
    recorder_->record("train", state_.step, epoch(), state_.train_seconds, values);
  }
  if (log() && costs.straggler) {
    if (recipe_.sync.slowdown.empty())
      log()->warning("{}", *costs.straggler);
    else
      log()->info("a rank is slower than the others, as sync.slowdown asks");
  }
}

void Trainer::record_layers(const std::vector<LayerFigures>& layers) {
  layers_seen_ = layers;
  for (const LayerFigures& layer : layers)
    recorder_->record_of("layer", layer.name, state_.step, epoch(), state_.train_seconds, layer.values());
}

void Trainer::write_trace() {
  if (!timeline_) return;
  const RankTimeline mine = {.rank = group_.rank(),
                             .host = host_name(),
                             .wall_offset_ns = measure_wall_offset_ns(),
                             .events = timeline_->take(),
                             .dropped = timeline_->dropped()};
  std::vector<RankTimeline> ranks;
  for (const std::string& text : gather_texts(group_, to_bytes(mine))) ranks.push_back(timeline_from(text));
  if (group_.rank() == 0) replace_file(options_.trace, chrome_trace(ranks));
}

Summary Trainer::summarise() {
  const GroupCosts costs = costs_.total();
  Summary summary = {.recipe = recipe_.title,
                     .model = recipe_.model.name,
                     .data = recipe_.data.name,
                     .device = recipe_.train.device,
                     .precision = recipe_.train.precision,
                     .engine = group_.engine(),
                     .codec = recipe_.comm.codec,
                     .policy = recipe_.sync.policy,
                     .optimizer = recipe_.optimizer.name,
                     .version = kVersion,
                     .ending = ending_,
                     .parameters = parameter_count(*model_),
                     .classes = data_.test->classes(),
                     .ranks = group_.size(),
                     .threads = at::get_num_threads(),
                     .rate = recipe_.optimizer.rate,
                     .seed = recipe_.train.seed,
                     .global_batch = static_cast<int64_t>(global_batch()),
                     .epochs = epoch(),
                     .steps = state_.step,
                     .samples = static_cast<int64_t>(state_.cursor_samples),
                     .skipped_steps = state_.loss_scale.skipped_steps,
                     .graph_steps = device_step_ ? device_step_->replays() : 0,
                     .train_seconds = state_.train_seconds,
                     .eval_seconds = state_.eval_seconds,
                     .loader_wait_seconds = static_cast<double>(batches_->waited_ns()) * 1e-9,
                     .images_per_second = state_.train_seconds > 0
                                              ? static_cast<double>(state_.cursor_samples) / state_.train_seconds
                                              : 0,
                     .costs = costs,
                     .train_loss = state_.train_loss,
                     .test_loss = state_.test_loss,
                     .test_accuracy = state_.test_accuracy,
                     .test_top5 = state_.test_top5,
                     .best_accuracy = state_.best_accuracy,
                     .target_seconds = state_.target_seconds,
                     .target_epoch = state_.target_epoch,
                     .peak_rss_bytes = peak_rss_bytes()};
  {
    const EvaluationStatistics statistics(*model_, recipe_, data_, group_, share_.weight());
    summary.weights_sha256 = weights_sha256(*model_);
  }
  if (keeps_files()) {
    recorder_->flush();
    replace_file(options_.run_folder.summary(), to_json(summary).dump(2) + "\n");
    replace_file(options_.run_folder.chart(), run_chart_svg(options_.run_folder.root, chart_title(recipe_)));
  }
  return summary;
}

}  // namespace paceline
