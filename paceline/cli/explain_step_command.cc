#include "paceline/cli/explain_step_command.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <memory>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/codec_on_cluster.h"
#include "paceline/collectives/compressed.h"
#include "paceline/collectives/explain_step.h"
#include "paceline/collectives/plan.h"
#include "paceline/collectives/platforms.h"
#include "paceline/collectives/stored_profile.h"
#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/train/assemble.h"
#include "paceline/train/loss.h"

namespace paceline {
namespace {

struct StepArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int ranks = 0;
  int ranks_per_host = 0;
  std::string platform = "shm";
  double backward_ms = 0;
  bool measure = false;
};

// Forward and backward of one rank's share, on this machine: the quickest of three.
struct Computing {
  double forward_s = 0, backward_s = 0;
};
Computing measure(const Recipe& recipe, Model& model, const ImageShape& shape, int64_t samples) {
  const torch::Tensor images = torch::randn({samples, shape.channels, shape.height, shape.width});
  const torch::Tensor labels = torch::zeros({samples}, torch::kInt64);
  model.train();
  Computing best = {1e9, 1e9};
  for (int trial = 0; trial < 3; ++trial) {
    const SteadyClock clock;
    const int64_t begin_ns = clock.now_ns();
    const torch::Tensor loss = loss_sum(recipe.loss, model.forward(images), labels);
    const int64_t middle_ns = clock.now_ns();
    loss.backward();
    best.forward_s = std::min(best.forward_s, seconds_between(begin_ns, middle_ns));
    best.backward_s = std::min(best.backward_s, seconds_between(middle_ns, clock.now_ns()));
  }
  return best;
}

std::string ranks_in_words(const Cluster& cluster) {
  return fmt::format("{} ranks on {} host{} ({})", cluster.ranks, cluster.hosts, cluster.hosts == 1 ? "" : "s",
                     cluster.name);
}

// What a bucket takes, through the codec.
class BucketCosts {
 public:
  BucketCosts(const Recipe& recipe, const Cluster& cluster, Plan plan, const Codec& codec)
      : recipe_(recipe), cluster_(cluster), plan_(std::move(plan)), codec_(codec) {
    if (packs()) codec_s_per_byte_ = measured_seconds_per_byte(codec, 1 << 18);
  }
  BucketCost of(uint64_t bytes) const {
    if (packs() && !codec_.wire_dtype())
      return {codec_.name(),
              compressed_cost(cluster_, static_cast<double>(bytes), codec_.ratio(), codec_s_per_byte_).seconds};
    const DType dtype = codec_.wire_dtype().value_or(DType::f32);
    const uint64_t wire_bytes = bytes / sizeof(float) * size_of(dtype);
    const std::string name =
        recipe_.comm.algorithm == "hybrid" ? plan_.algorithm(dtype, wire_bytes) : recipe_.comm.algorithm;
    const double seconds =
        all_reduce_algorithm(name).cost(cluster_, plan_.grid, static_cast<double>(wire_bytes)).seconds;
    return {name, seconds + codec_s_per_byte_ * static_cast<double>(bytes)};
  }
  bool packs() const { return codec_.wire_dtype() != DType::f32; }
  double codec_s_per_byte() const { return codec_s_per_byte_; }

 private:
  const Recipe& recipe_;
  Cluster cluster_;
  Plan plan_;
  const Codec& codec_;
  double codec_s_per_byte_ = 0;
};

void explain_step_of(const StepArguments& arguments) {
  const Recipe recipe = read_recipe(arguments.recipe, arguments.overrides);
  const Catalog catalog;
  const DatasetPair data = open_data(recipe, catalog);
  const std::shared_ptr<Model> model = build_model(recipe, catalog, *data.train);
  const auto codec = build_codec(recipe, catalog, arguments.ranks);
  codec->set_epoch(recipe.train.epochs);  // past its warm-up
  const Cluster cluster = platform(arguments.platform, arguments.ranks, arguments.ranks_per_host);
  const Grid grid = cluster.default_grid();
  const BucketCosts costs(recipe, cluster, make_plan(cluster, grid, nullptr), *codec);

  StepOutline outline = {.model = recipe.model.name, .ranks = ranks_in_words(cluster), .codec = recipe.comm.codec};
  outline.codec_ratio = codec->ratio();
  std::vector<Parameter> parameters = parameters_of(*model);
  std::ranges::reverse(parameters);
  for (const Parameter& parameter : parameters) {
    outline.names.push_back(parameter.name);
    outline.counts.push_back(static_cast<size_t>(parameter.tensor.numel()));
  }
  const auto seconds = [&](uint64_t bytes) { return costs.of(bytes).seconds; };
  outline.backward_s = 1e-3 * arguments.backward_ms;
  if (arguments.measure) {
    if (recipe.train.threads > 0) at::set_num_threads(static_cast<int>(recipe.train.threads));
    const int64_t share =
        recipe.batch.local > 0 ? recipe.batch.local : std::max<int64_t>(1, recipe.batch.global / arguments.ranks);
    const Computing computing = measure(recipe, *model, data.train->shape(), share);
    outline.backward_s = computing.backward_s;
    outline.forward_s = computing.forward_s;
  }
  if (outline.backward_s == 0) {
    outline.backward_s = assumed_backward_s(outline.counts, seconds);
    outline.backward_assumed = true;
  }
  const std::vector<double> ready_s = recipe.comm.overlap
                                          ? assumed_ready_s(outline.counts, outline.backward_s)
                                          : std::vector<double>(outline.counts.size(), outline.backward_s);
  outline.ready_s = ready_s;
  const bool chosen = recipe.comm.bucket_bytes == 0;
  const uint64_t bucket_bytes =
      chosen ? choose_bucket_bytes(outline.counts, ready_s, seconds) : recipe.comm.bucket_bytes;
  const bool shared = chosen && all_reduce_algorithm("direct").applies(cluster);
  outline.plan = plan_buckets(outline.counts, bucket_bytes, chosen_lone_bytes(bucket_bytes, shared));
  for (const Bucket& bucket : outline.plan.buckets) outline.buckets.push_back(costs.of(bucket.bytes()));
  fmt::print("{}", explain_step(outline));
  if (!costs.packs()) return;
  size_t total = 0;
  for (const size_t count : outline.counts) total += count;
  fmt::print("{}\n", judge_codec_on(cluster, *codec, costs.codec_s_per_byte(), 4.0 * static_cast<double>(total)).text);
}

}  // namespace

void add_explain_step_command(CLI::App& explain) {
  CLI::App* command =
      explain.add_subcommand("step", "A training step: buckets, the algorithm of each, and what backward hides");
  const auto arguments = std::make_shared<StepArguments>();
  command->add_option("RECIPE", arguments->recipe, "The recipe, a TOML file")->required();
  command->add_option("--set", arguments->overrides, "Replace a key of the recipe (may be repeated)")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--ranks", arguments->ranks, "How many ranks")->required()->check(CLI::PositiveNumber);
  command
      ->add_option("--ranks-per-host", arguments->ranks_per_host,
                   "Ranks that share a host (default: abci 4, other platforms all)")
      ->check(CLI::PositiveNumber);
  command->add_option("--platform", arguments->platform, fmt::format("{}", fmt::join(platform_names(), ", ")))
      ->capture_default_str();
  command->add_option("--backward-ms", arguments->backward_ms, "What backward takes on one rank")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--measure", arguments->measure, "Measure forward and backward of one rank's share here, now");
  command->footer(
      "Examples:\n"
      "  paceline explain step recipes/cifar10_resnet20.toml --ranks 4 --measure\n"
      "  paceline explain step recipes/cifar10_resnet20.toml --ranks 64 --platform abci --backward-ms 33 --set "
      "comm.codec=fp16");
  command->callback([arguments] { explain_step_of(*arguments); });
}

}  // namespace paceline
