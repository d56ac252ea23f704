#include "paceline/train/run_remarks.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "paceline/collectives/codec_on_cluster.h"
#include "paceline/collectives/platforms.h"
#include "paceline/core/number_text.h"
#include "paceline/optim/lars_share.h"
#include "paceline/schedule/from_recipe.h"

namespace paceline {
namespace {

std::string keys_about_ranks(const Recipe& recipe) {
  std::vector<std::string> keys;
  for (const auto& [key, place] : recipe.written) {
    const bool about_ranks = key.starts_with("comm.") || key == "batch.fill" || key == "batch.fills" ||
                             key == "batch_norm.sync" || key == "sync.interval";
    if (about_ranks) keys.push_back(key);
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

}  // namespace

void log_run(const RunFacts& run, Log& log) {
  const Recipe& recipe = run.recipe;
  Group& group = run.group;
  log.info("training {} ({} parameters) on {}: {} images, {:.4g} epoch{} in {} step{} of {} samples", recipe.model.name,
           with_commas(static_cast<uint64_t>(run.parameters)), recipe.data.name, with_commas(run.data_size),
           run.length.epochs, run.length.epochs == 1 ? "" : "s", with_commas(static_cast<uint64_t>(run.length.steps)),
           run.length.steps == 1 ? "" : "s", with_commas(run.batch));
  const int threads = at::get_num_threads();
  if (group.size() > 1)
    log.info("{} ranks over {}, {} thread{} each; {}", group.size(), group.engine(), threads, threads == 1 ? "" : "s",
             run.strategy.plan_text());
  if (const std::string keys = keys_about_ranks(recipe); group.size() == 1 && !keys.empty())
    log.info("one rank: {} have no effect", keys);
  const Codec* const codec = run.strategy.reducer().codec();
  if (codec != nullptr && recipe.train.device == "cpu") {  // what packing costs is measured on the CPU
    constexpr size_t kProbe = 1 << 18;
    const CodecVerdict verdict = judge_codec_on(cluster_of(group), *codec, measured_seconds_per_byte(*codec, kProbe),
                                                sizeof(float) * static_cast<double>(run.parameters));
    if (!verdict.pays) log.warning("comm.codec: {}", verdict.text);
  }
  if (recipe.optimizer.name != "lars" && recipe.optimizer.name != "hybrid") return;
  const BatchSchedule batch = batch_schedule(recipe, group.size(), run.data_size);
  const double rate = highest_rate(recipe, static_cast<int64_t>(batch.at(0)));
  if (const auto warning = warning_of_lars_share(rate, recipe.optimizer.eta)) log.warning("{}", *warning);
}

void log_layers(const std::vector<LayerFigures>& diagnosed, const std::vector<LayerFigures>& at_the_end, Log& log) {
  constexpr size_t kMostLines = 8;
  if (!diagnosed.empty())
    log.warning("the layers that moved most in the last diagnosis:\n{}", worst_layers_text(diagnosed, kMostLines));
  log.warning("the layers as the run ended:\n{}", worst_layers_text(at_the_end, kMostLines));
}

}  // namespace paceline
