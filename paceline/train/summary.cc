#include "paceline/train/summary.h"

#include <fmt/format.h>

#include <cmath>

#include "paceline/core/number_text.h"
#include "paceline/train/loss.h"

namespace paceline {
namespace {

nlohmann::ordered_json or_null(double value) {
  if (value < 0 || !std::isfinite(value)) return nullptr;
  return value;
}

std::string clock_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02} h", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

nlohmann::ordered_json to_json(const Summary& s) {
  return {{"recipe", s.recipe},
          {"model", s.model},
          {"parameters", s.parameters},
          {"data", s.data},
          {"device", s.device},
          {"precision", s.precision},
          {"engine", s.engine},
          {"codec", s.codec},
          {"policy", s.policy},
          {"optimizer", s.optimizer},
          {"rate", s.rate},
          {"seed", s.seed},
          {"ranks", s.ranks},
          {"threads", s.threads},
          {"global_batch", s.global_batch},
          {"step_samples", s.step_samples > 0 ? s.step_samples : s.global_batch},
          {"ending", s.ending},
          {"epochs", s.epochs},
          {"steps", s.steps},
          {"samples", s.samples},
          {"skipped_steps", s.skipped_steps},
          {"graph_steps", s.graph_steps},
          {"train_seconds", s.train_seconds},
          {"eval_seconds", s.eval_seconds},
          {"loader_wait_seconds", s.loader_wait_seconds},
          {"images_per_second", s.images_per_second},
          {"single_device_seconds", single_device_s(s.train_seconds, static_cast<int>(s.ranks))},
          {"efficiency", s.costs.efficiency},
          {"overlap", s.costs.overlap},
          {"compute_seconds_per_step", s.costs.compute_per_step_s},
          {"communication_seconds_per_step", s.costs.communication_per_step_s},
          {"waiting_seconds_per_step", s.costs.waiting_per_step_s},
          {"train_loss", or_null(s.train_loss)},
          {"test_loss", or_null(s.test_loss)},
          {"test_accuracy", or_null(s.test_accuracy)},
          {"test_top5", or_null(s.test_top5)},
          {"best_accuracy", or_null(s.best_accuracy)},
          {"target_seconds", or_null(s.target_seconds)},
          {"target_epoch", or_null(s.target_epoch)},
          {"weights_sha256", s.weights_sha256},
          {"peak_rss_bytes", s.peak_rss_bytes},
          {"version", s.version}};
}

std::string to_table(const Summary& s) {
  std::string table;
  const auto row = [&](std::string_view name, const std::string& value) {
    table += fmt::format("  {:<14}{}\n", name, value);
  };
  row("model", fmt::format("{}, {} parameters", s.model, with_commas(static_cast<uint64_t>(s.parameters))));
  row("data",
      fmt::format("{}, {} sample{} seen ({:.4g} epoch{})", s.data, with_commas(static_cast<uint64_t>(s.samples)),
                  s.samples == 1 ? "" : "s", s.epochs, s.epochs == 1 ? "" : "s"));
  row("ran on",
      fmt::format("{}, {}, {} rank{} x {} thread{}{}", s.device, s.precision, s.ranks, s.ranks == 1 ? "" : "s",
                  s.threads, s.threads == 1 ? "" : "s", s.ranks == 1 ? "" : " over " + s.engine));
  row("steps", fmt::format("{} of {} samples{}{}", with_commas(static_cast<uint64_t>(s.steps)),
                           with_commas(static_cast<uint64_t>(s.step_samples > 0 ? s.step_samples : s.global_batch)),
                           s.step_samples_vary ? " on average" : "",
                           s.skipped_steps > 0 ? fmt::format(", {} skipped", s.skipped_steps) : ""));
  row("time", fmt::format("{} training, {} evaluating{}", clock_text(s.train_seconds), clock_text(s.eval_seconds),
                          s.evaluates_meanwhile ? " meanwhile" : ""));
  row("speed", fmt::format("{} images/s", with_commas(static_cast<uint64_t>(std::llround(s.images_per_second)))));
  if (s.ranks > 1 && s.costs.compute_per_step_s > 0) {  // a run that was resumed at its end makes no step
    row("a step", fmt::format("{:.1f} ms computing, {:.1f} ms communicating ({:.0f} % of it hidden), {:.1f} ms waiting",
                              1e3 * s.costs.compute_per_step_s, 1e3 * s.costs.communication_per_step_s,
                              100 * s.costs.overlap, 1e3 * s.costs.waiting_per_step_s));
    row("efficiency", fmt::format("{:.1f} %  ({} of one device in all)", 100 * s.costs.efficiency,
                                  clock_text(single_device_s(s.train_seconds, static_cast<int>(s.ranks)))));
  }
  if (s.train_loss >= 0) row("train loss", fmt::format("{:.4f}", s.train_loss));
  if (s.test_accuracy >= 0) {
    row("test accuracy", fmt::format("{:.2f} %  ({}best {:.2f} %)", 100 * s.test_accuracy,
                                     top5_tells(s.classes) ? fmt::format("top-5 {:.2f} %, ", 100 * s.test_top5) : "",
                                     100 * s.best_accuracy));
  }
  if (s.target_seconds >= 0)
    row("target",
        fmt::format("reached after {} of training, {:.4g} epochs", clock_text(s.target_seconds), s.target_epoch));
  row("memory", fmt::format("{} MB at most", with_commas(static_cast<uint64_t>(s.peak_rss_bytes / 1'000'000))));
  return table;
}

}  // namespace paceline
