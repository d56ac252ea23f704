#include "paceline/serving/served_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/core/recipe_keys.h"
#include "paceline/data/data_digest.h"
#include "paceline/ps/run_mark.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 22> kOfOneProcess = {"data.root",
                                                            "data.train_samples",
                                                            "data.test_samples",
                                                            "data.loader_threads",
                                                            "data.prefetch_batches",
                                                            "data.resident",
                                                            "train.target_accuracy",
                                                            "train.device",
                                                            "train.threads",
                                                            "train.graph",
                                                            "train.eval_every_epochs",
                                                            "train.log_every_steps",
                                                            "train.diagnose_every_steps",
                                                            "train.deterministic",
                                                            "comm.engine",
                                                            "comm.algorithm",
                                                            "comm.bucket_bytes",
                                                            "comm.overlap",
                                                            "sync.slowdown",
                                                            "checkpoint.every_steps",
                                                            "checkpoint.keep",
                                                            "batch_norm.recompute_batches"};

}  // namespace

std::string served_settings(const Recipe& recipe, const DatasetPair& data) {
  std::string lines = fmt::format("{} = {}\n{}, pixels and labels = digest {}\n", kDataSettings, data.train->size(),
                                  kDataSettings, training_digest(data));
  for (const DeclaredSection& section : declared_sections()) {
    for (const DeclaredKey& key : section.keys) {
      if (!key.applies.holds(recipe) || std::ranges::find(kOfOneProcess, key.full_name()) != kOfOneProcess.end())
        continue;
      lines += fmt::format("{} = {}\n", key.full_name(), print_value(key, key.member.get(recipe)));
    }
  }
  return lines;
}

}  // namespace paceline
