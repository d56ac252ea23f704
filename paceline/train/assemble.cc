#include "paceline/train/assemble.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <vector>

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/comm/device_sharing.h"
#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/core/log.h"
#include "paceline/core/usable_cores.h"
#include "paceline/models/initialise.h"
#include "paceline/models/layers.h"
#include "paceline/precision/autocast.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/train/step_graph.h"
#include "paceline/train/step_probes.h"

namespace paceline {
namespace {

// What augmentation does with images must fit into them.
void require_room_for(const Recipe& recipe, const ImageShape& shape) {
  const int64_t side = std::min(shape.height, shape.width);
  const auto require = [&](const char* key, int64_t pixels, int64_t most) {
    if (pixels > most)
      recipe.refuse(key, fmt::format("{} pixels do not fit images of {}x{} (at most {})", pixels, shape.height,
                                     shape.width, most));
  };
  require("augment.crop_padding", recipe.augment.crop_padding, side - 1);
  require("augment.cutout", recipe.augment.cutout, side);
}

}  // namespace

torch::Device open_device(const Recipe& recipe, [[maybe_unused]] const Group& group) {
  if (recipe.train.device == "cpu") return torch::kCPU;
#ifdef PACELINE_CUDA
  if (!torch::cuda::is_available())
    recipe.refuse("train.device", "no CUDA device was found on this machine; use device = \"cpu\"");
  if (group.size() == 1) return torch::kCUDA;
  const auto devices = static_cast<int>(torch::cuda::device_count());
  const int number = device_of_rank(group.topology(), group.rank(), devices);
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(number));
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  return device;
#else
  recipe.refuse("train.device",
                "this program was built without CUDA; build it with 'make build PRESET=cuda', or use device = \"cpu\"");
#endif
}

DatasetPair open_data(const Recipe& recipe, const Catalog& catalog) {
  const Recipe::Data& data = recipe.data;
  if (!catalog.datasets.contains(data.name)) recipe.refuse("data.name", catalog.datasets.unknown(data.name));
  DatasetPair pair = open_dataset(catalog.datasets, data.name,
                                  {.root = data.root,
                                   .train_samples = data.train_samples,
                                   .test_samples = data.test_samples,
                                   .classes = data.classes,
                                   .channels = data.channels,
                                   .image_size = data.image_size,
                                   .seed = recipe.train.seed});
  if (pair.train->size() == 0 || pair.test->size() == 0)
    recipe.refuse("data.name", "the training or test set is empty");
  require_room_for(recipe, pair.train->shape());
  return pair;
}

std::shared_ptr<Model> build_model(const Recipe& recipe, const Catalog& catalog, const Dataset& data) {
  if (!catalog.models.contains(recipe.model.name))
    recipe.refuse("model.name", catalog.models.unknown(recipe.model.name));
  std::shared_ptr<Model> model;
  try {
    model = make_model(catalog.models, recipe.model.name,
                       {.classes = data.classes(),
                        .channels = data.shape().channels,
                        .image_size = data.shape().height,
                        .image_width = data.shape().width,
                        .dropout = recipe.model.dropout,
                        .zero_gamma = recipe.model.zero_gamma});
  } catch (const UsageError& error) {  // images of a wrong size: the recipe's fault, so say where
    recipe.refuse("model.name", error.what());
  }
  initialise(*model, recipe.model.init, recipe.train.seed);
  return model;
}

std::shared_ptr<Model> placed_on(torch::Device device, std::shared_ptr<Model> model) {
  model->to(device);
  if (device.is_cuda())
    for (torch::Tensor& parameter : model->parameters())
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
  return model;
}

bool codec_has_the_momentum(const Recipe& recipe, int ranks) {
  const bool sparse = recipe.comm.codec == "topk" || recipe.comm.codec == "threshold";
  return ranks > 1 && sparse && recipe.comm.momentum_correction;
}

std::unique_ptr<Optimizer> build_optimizer(const Recipe& recipe, const Catalog& catalog, const Model& model,
                                           int ranks) {
  const std::string& name = recipe.optimizer.name;
  if (!catalog.optimizers.contains(name)) recipe.refuse("optimizer.name", catalog.optimizers.unknown(name));
  Recipe::Optimizer options = recipe.optimizer;
  if (codec_has_the_momentum(recipe, ranks)) options.weight_decay /= 1 - options.momentum;
  std::vector<Parameter> parameters = parameters_of(model);
  if (options.decay_all)
    for (Parameter& parameter : parameters) parameter.decayed = true;
  return catalog.optimizers.at(name)(std::move(parameters), options);
}

std::unique_ptr<Optimizer> with_rate_of(const Recipe& recipe, const Model& model, double first_rate,
                                        std::unique_ptr<Optimizer> optimizer) {
  if (!finds_rate(recipe)) return optimizer;
  constexpr double kMostTimesTheFirst = 100;
  const double most = recipe.sync.most_rate > 0 ? recipe.sync.most_rate : kMostTimesTheFirst * first_rate;
  if (most < first_rate) recipe.refuse("sync.most_rate", "lies below the rate that the run begins with");
  return with_rate_finding(std::move(optimizer), parameters_of(model), steady_barzilai_borwein(first_rate, most));
}

std::unique_ptr<Codec> build_codec(const Recipe& recipe, const Catalog& catalog, int ranks) {
  const Recipe::Comm& comm = recipe.comm;
  if (!catalog.codecs.contains(comm.codec)) recipe.refuse("comm.codec", catalog.codecs.unknown(comm.codec));
  return catalog.codecs.at(comm.codec)({.density = comm.density,
                                        .density_warmup = comm.density_warmup,
                                        .threshold = comm.threshold,
                                        .block = static_cast<size_t>(comm.block),
                                        .scaled = recipe.precision.loss_scaling != "none",
                                        .ranks = ranks});
}

std::unique_ptr<Reducer> build_reducer(const Recipe& recipe, const Catalog& catalog, const Model& model, Group& group,
                                       Timeline* timeline, const std::string& stored_plan) {
  const Recipe::Comm& comm = recipe.comm;
  ReducerOptions options;
  options.bucket_bytes = comm.bucket_bytes;
  options.overlap = comm.overlap && !recipe.batch_norm.sync ? Overlap::where_it_pays : Overlap::never;
  options.compute_threads = threads_per_rank(recipe, group);
  options.algorithm = comm.algorithm;
  options.timeline = timeline;
  options.stored_plan = stored_plan;
  options.hybrid.warn = [](const std::string& text) { Log(stderr_console()).warning("{}", text); };
  auto codec = build_codec(recipe, catalog, group.size());
  if (comm.codec != "none" && group.size() > 1 && recipe.train.device != "cpu" && !codec->half_wire())
    recipe.refuse("comm.codec",
                  "packs gradients on the CPU only; with train.device = \"cuda\" use \"none\", \"fp16\" or \"bf16\"");
  if (comm.codec != "none" && group.size() > 1)
    options.sum = {.codec = std::move(codec),
                   .error_feedback = comm.error_feedback,
                   .momentum_correction = codec_has_the_momentum(recipe, group.size()) ? recipe.optimizer.momentum : 0};
  std::vector<NamedParameter> parameters;
  for (const Parameter& parameter : parameters_of(model)) parameters.push_back({parameter.name, parameter.tensor});
  // The reducer holds what accumulates gradients, which works on the stream that it was made on: on any other than that
  // of the steps, none of them could be recorded as a CUDA graph.
  const StepStream stream(parameters.empty() ? torch::Device(torch::kCPU) : parameters.front().tensor.device());
  try {
    return std::make_unique<Reducer>(std::move(parameters), group, std::move(options));
  } catch (const UsageError& error) {  // no such algorithm, or not for these ranks
    recipe.refuse("comm.algorithm", error.what());
  }
}

std::unique_ptr<Batches> open_training_batches(const Recipe& recipe, const DatasetPair& data,
                                               const BatchSchedule& batch, const Group& group, uint64_t cursor_samples,
                                               torch::Device device) {
  const LoaderOptions options = {
      .global_batch = batch,
      .rank = group.rank(),
      .ranks = group.size(),
      .fill = fill_schedule(recipe),
      .threads = static_cast<int>(recipe.data.loader_threads),
      .prefetch_batches = static_cast<int>(recipe.data.prefetch_batches),
      .seed = recipe.train.seed,
      .augmentation = {
          .crop_padding = recipe.augment.crop_padding, .flip = recipe.augment.flip, .cutout = recipe.augment.cutout}};
  const ImageFormat format = {.dtype = autocast_type(recipe.train.precision).value_or(torch::kFloat32),
                              .channels_last = true};
  return make_batches({data.train, data.normalisation, options, cursor_samples}, device, format, recipe.data.resident);
}

std::unique_ptr<LossScaler> build_loss_scaler(const Recipe& recipe, torch::Device device) {
  if (recipe.precision.loss_scaling == "none") return nullptr;
  return std::make_unique<LossScaler>(LossScale(loss_scale_options(recipe.precision)), device);
}

void synchronise_batch_norm(const Recipe& recipe, Model& model, Group& group, int64_t& exchange_ns) {
  if (!recipe.batch_norm.sync || group.size() == 1) return;
  if (recipe.batch.fill > 0)
    recipe.refuse("batch_norm.sync", "does not go with batch.fill, which leaves ranks without samples");
  for (const auto& module : model.modules()) {
    auto* const layer = dynamic_cast<BatchNorm2d*>(module.get());
    if (layer == nullptr) continue;
    layer->synchronise([&group, &exchange_ns](torch::Tensor& numbers) {
      const SteadyClock clock;
      const int64_t begin_ns = clock.now_ns();
      sum_over_ranks(group, {numbers.data_ptr(), static_cast<size_t>(numbers.numel()), DType::f64});
      exchange_ns += clock.now_ns() - begin_ns;
    });
  }
}

int threads_per_rank(const Recipe& recipe, Group& group) {
  if (recipe.train.threads > 0) return static_cast<int>(recipe.train.threads);
  UsableCores mine = usable_cores();
  std::vector<UsableCores> all(static_cast<size_t>(group.size())), here;
  constexpr size_t kNumbers = sizeof(UsableCores) / sizeof(int64_t);
  group.all_gather({&mine, kNumbers, DType::i64}, {all.data(), kNumbers * all.size(), DType::i64});
  const Topology& topology = group.topology();
  for (const int rank : topology.ranks_of(topology.host_of(group.rank())))
    here.push_back(all[static_cast<size_t>(rank)]);
  return threads_of(mine, here);
}

}  // namespace paceline
