#include "paceline/cli/explain_step_command.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <memory>

#include "paceline/cli/cluster_arguments.h"
#include "paceline/codecs/codec_cost.h"
#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/compressed.h"
#include "paceline/collectives/explain_step.h"
#include "paceline/collectives/link_text.h"
#include "paceline/collectives/plan.h"
#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/core/usable_cores.h"
#include "paceline/data/dataset_outline.h"
#include "paceline/train/assemble.h"
#include "paceline/train/gradient_pass.h"

namespace paceline {
namespace {

struct StepArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  ClusterArguments cluster;
  double backward_ms = 0;
  bool measure = false;
};

// Forward and backward of one rank's share, on this machine: the quickest of three.
struct Computing {
  double forward_s = 0, backward_s = 0;
};
Computing measure(Recipe recipe, Model& model, const ImageShape& shape, int64_t samples) {
  recipe.train.precision = "f32";  // that of a GPU may not be there
  const TrainingBatch batch = {.images = torch::randn({samples, shape.channels, shape.height, shape.width}),
                               .labels = torch::zeros({samples}, torch::kInt64)};
  model.train();
  Timeline timeline;
  const GradientPass pass(model, recipe, nullptr, &timeline);
  Computing best = {1e9, 1e9};
  for (int trial = 0; trial < 3; ++trial) {
    pass.gradients(batch, samples);
    Computing all;
    for (const TimelineEvent& event : timeline.take())
      (event.name == "forward" ? all.forward_s : all.backward_s) += seconds_between(event.begin_ns, event.end_ns);
    best.forward_s = std::min(best.forward_s, all.forward_s);
    best.backward_s = std::min(best.backward_s, all.backward_s);
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
    const bool on_cpu = recipe.train.device == "cpu";  // what packing takes on a GPU is not known here
    if (packs() && on_cpu) codec_s_per_byte_ = measured_seconds_per_byte(codec, 1 << 18);
  }
  BucketCost of(uint64_t bytes) const {
    if (packs() && !codec_.wire_dtype())
      return {codec_.name(),
              compressed_cost(cluster_, static_cast<double>(bytes), codec_.ratio(), codec_s_per_byte_).seconds};
    const DType dtype = codec_.wire_dtype().value_or(DType::f32);
    BucketCost cost = sum_of(bytes / sizeof(float) * size_of(dtype), dtype);
    cost.seconds += codec_s_per_byte_ * static_cast<double>(bytes);
    return cost;
  }
  BucketCost without_codec(uint64_t bytes) const { return sum_of(bytes, DType::f32); }
  bool packs() const { return codec_.wire_dtype() != DType::f32; }

 private:
  BucketCost sum_of(uint64_t wire_bytes, DType dtype) const {
    const std::string name =
        recipe_.comm.algorithm == "hybrid" ? plan_.algorithm(dtype, wire_bytes) : recipe_.comm.algorithm;
    return {name, all_reduce_algorithm(name).cost(cluster_, plan_.grid, static_cast<double>(wire_bytes)).seconds};
  }

  const Recipe& recipe_;
  Cluster cluster_;
  Plan plan_;
  const Codec& codec_;
  double codec_s_per_byte_ = 0;
};

// As gradients/overlap.h decides it when ranks of this recipe start on this machine.
std::string why_no_overlap(const Recipe& recipe, const Cluster& cluster) {
  if (!recipe.comm.overlap) return "comm.overlap = false";
  if (recipe.batch_norm.sync) return "batch_norm.sync exchanges statistics within backward";
  const bool on_cpus = recipe.train.device == "cpu" && cluster.name != "abci";
  if (!on_cpus || cluster.hosts > 1 || cluster.ranks == 1) return "";
  const int cores = cores_of(usable_cores());
  const auto threads =
      static_cast<int>(recipe.train.threads > 0 ? recipe.train.threads : std::max(1, cores / cluster.ranks));
  if (threads * cluster.ranks < cores) return "";
  return fmt::format(
      "on one host the ranks move the bytes themselves, and {} ranks x {} thread{} keep all {} core{} of "
      "this machine computing",
      cluster.ranks, threads, threads == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
}

// From the prices in the table.
std::string verdict_on_codec(const Recipe& recipe, const BucketCosts& costs, const BucketPlan& plan) {
  double with_s = 0, without_s = 0;
  for (const Bucket& bucket : plan.buckets) {
    with_s += costs.of(bucket.bytes()).seconds;
    without_s += costs.without_codec(bucket.bytes()).seconds;
  }
  const char* packing = recipe.train.device == "cpu" ? "packing on this processor included" : "packing not counted";
  return fmt::format("comm.codec = \"{}\" {}: communication takes {:.3f} ms with it, {:.3f} ms without ({})",
                     recipe.comm.codec, with_s < without_s ? "pays" : "does not pay", 1e3 * with_s, 1e3 * without_s,
                     packing);
}

// The data itself need not be here.
std::shared_ptr<const Dataset> shapes_of(const Recipe& recipe, const Catalog& catalog) {
  if (std::unique_ptr<Dataset> outline = dataset_outline(recipe.data)) return outline;
  return open_data(recipe, catalog).train;
}

void explain_step_of(const StepArguments& arguments, const Catalog& catalog) {
  const Recipe recipe = read_recipe(arguments.recipe, arguments.overrides);
  const std::shared_ptr<const Dataset> data = shapes_of(recipe, catalog);
  const std::shared_ptr<Model> model = build_model(recipe, catalog, *data);
  const Cluster cluster = arguments.cluster.cluster();
  const auto codec = build_codec(recipe, catalog, cluster.ranks);
  codec->set_epoch(recipe.train.epochs);  // past its warm-up
  const BucketCosts costs(recipe, cluster, make_plan(cluster, cluster.default_grid(), nullptr), *codec);

  StepOutline outline = {.model = recipe.model.name,
                         .ranks = ranks_in_words(cluster),
                         .codec = recipe.comm.codec,
                         .no_overlap = why_no_overlap(recipe, cluster),
                         .links = assumptions_of(cluster)};
  outline.codec_ratio = codec->ratio();
  std::vector<Parameter> parameters = parameters_of(*model);
  std::ranges::reverse(parameters);
  for (const Parameter& parameter : parameters) {
    outline.names.push_back(parameter.name);
    outline.counts.push_back(static_cast<size_t>(parameter.tensor.numel()));
  }
  outline.backward_s = 1e-3 * arguments.backward_ms;
  if (arguments.measure) {
    if (recipe.train.threads > 0) at::set_num_threads(static_cast<int>(recipe.train.threads));
    const int64_t share =
        recipe.batch.local > 0 ? recipe.batch.local : std::max<int64_t>(1, recipe.batch.global / cluster.ranks);
    const Computing computing = measure(recipe, *model, data->shape(), share);
    outline.backward_s = computing.backward_s;
    outline.forward_s = computing.forward_s;
  }
  if (outline.backward_s == 0) {
    outline.backward_s = assumed_backward_s(outline.counts, [&](uint64_t bytes) { return costs.of(bytes).seconds; });
    outline.backward_assumed = true;
  }
  // As a run chooses: before anything is measured, and whatever the codec.
  const bool chosen = recipe.comm.bucket_bytes == 0;
  const auto seconds = [&](uint64_t bytes) { return costs.without_codec(bytes).seconds; };
  const uint64_t bucket_bytes = chosen ? choose_bucket_bytes(outline.counts, seconds) : recipe.comm.bucket_bytes;
  const bool shared = chosen && cluster.shared_memory && cluster.hosts == 1;
  outline.plan = plan_buckets(outline.counts, bucket_bytes, chosen_lone_bytes(bucket_bytes, shared));
  for (const Bucket& bucket : outline.plan.buckets) outline.buckets.push_back(costs.of(bucket.bytes()));
  fmt::print("{}", explain_step(outline));
  if (costs.packs()) fmt::print("{}\n", verdict_on_codec(recipe, costs, outline.plan));
}

}  // namespace

void add_explain_step_command(CLI::App& explain, const Catalog& catalog) {
  CLI::App* command =
      explain.add_subcommand("step", "A training step: buckets, the algorithm of each, and what backward hides");
  const auto arguments = std::make_shared<StepArguments>();
  command->add_option("RECIPE", arguments->recipe, "The recipe, a TOML file")->required();
  command->add_option("--set", arguments->overrides, "Replace a key of the recipe (may be repeated)")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  arguments->cluster.add_options(*command);
  command->add_option("--backward-ms", arguments->backward_ms, "What backward takes on one rank")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--measure", arguments->measure, "Measure forward and backward of one rank's share here, now");
  command->footer(
      "Examples:\n"
      "  paceline explain step recipes/mikami_exp1.toml --ranks 2176 --backward-ms 33\n"
      "  paceline explain step recipes/cifar10_resnet20.toml --ranks 64 --backward-ms 33 --set comm.codec=fp16\n"
      "  paceline explain step recipes/fashion_mnist.toml --ranks 16 --ranks-per-host 4 --platform shm+gloo --link "
      "25Gbit\n"
      "  paceline explain step recipes/fashion_mnist.toml --ranks 2 --platform shm --measure\n"
      "The data need not be here: its shape and its classes are enough.");
  command->callback([arguments, &catalog] { explain_step_of(*arguments, catalog); });
}

}  // namespace paceline
