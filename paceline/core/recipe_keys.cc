// Every key of a recipe, declared once. Defaults are those of a default-constructed Recipe.
#include "paceline/core/recipe_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/bytes.h"
#include "paceline/core/check.h"

namespace paceline {
namespace {

// Upper bounds keep products of counts inside 64 bits.
constexpr double kMostSamples = 1e12, kMostSteps = 1e12, kMostBatch = 1e9, kMostEpochs = 1e6, kMostThreads = 1024;

KeyRange at_least(double low) { return {.low = low}; }
KeyRange above(double low) { return {.low = low, .low_itself = false}; }
KeyRange from_to(double low, double high) { return {.low = low, .high = high}; }
KeyRange above_to(double low, double high) { return {.low = low, .high = high, .low_itself = false}; }
KeyRange from_below(double low, double high) { return {.low = low, .high = high, .high_itself = false}; }

KeyCondition with(std::string key, std::vector<std::string> words) {
  return {KeyCondition::Kind::one_of, std::move(key), std::move(words)};
}
KeyCondition except(std::string key, std::vector<std::string> words) {
  return {KeyCondition::Kind::none_of, std::move(key), std::move(words)};
}
KeyCondition with_positive(std::string key) { return {KeyCondition::Kind::positive, std::move(key), {}}; }
KeyCondition with_zero(std::string key) { return {KeyCondition::Kind::zero, std::move(key), {}}; }

// clang-format off
std::vector<DeclaredSection> declare() {
  return {
    {"model", "What is trained.", {
      {.name = "name", .member = [](auto& r) -> auto& { return r.model.name; },
       .meaning = "which model"},
      {.name = "init", .member = [](auto& r) -> auto& { return r.model.init; },
       .meaning = "how the weights of convolutions start",
       .words = {"kaiming", "xavier", "normal"}},
      {.name = "zero_gamma", .member = [](auto& r) -> auto& { return r.model.zero_gamma; },
       .meaning = "the last batch normalisation of each residual block starts at 0, the block as the identity"},
      {.name = "dropout", .member = [](auto& r) -> auto& { return r.model.dropout; },
       .meaning = "the probability of dropping an activation, in models that have dropout",
       .range = from_below(0, 1)},
    }},
    {"data", "What it is trained on.", {
      {.name = "name", .member = [](auto& r) -> auto& { return r.data.name; },
       .meaning = "which data set"},
      {.name = "root", .member = [](auto& r) -> auto& { return r.data.root; },
       .meaning = "the folder that holds it; empty: where its package puts it, or data/NAME",
       .applies = except("data.name", {"synthetic"})},
      {.name = "train_samples", .member = [](auto& r) -> auto& { return r.data.train_samples; },
       .meaning = "train on the first so many; 0: all",
       .range = from_to(0, kMostSamples), .unit = "samples"},
      {.name = "test_samples", .member = [](auto& r) -> auto& { return r.data.test_samples; },
       .meaning = "evaluate on the first so many; 0: all",
       .range = from_to(0, kMostSamples), .unit = "samples"},
      {.name = "classes", .member = [](auto& r) -> auto& { return r.data.classes; },
       .meaning = "how many classes to make up",
       .range = from_to(1, 1e6), .applies = with("data.name", {"synthetic"})},
      {.name = "channels", .member = [](auto& r) -> auto& { return r.data.channels; },
       .meaning = "channels of the images made up",
       .range = from_to(1, 1024), .applies = with("data.name", {"synthetic"})},
      {.name = "image_size", .member = [](auto& r) -> auto& { return r.data.image_size; },
       .meaning = "height and width of the images made up",
       .range = from_to(1, 4096), .unit = "pixels", .applies = with("data.name", {"synthetic"})},
      {.name = "loader_threads", .member = [](auto& r) -> auto& { return r.data.loader_threads; },
       .meaning = "threads that prepare batches",
       .range = from_to(1, kMostThreads), .unit = "threads"},
      {.name = "prefetch_batches", .member = [](auto& r) -> auto& { return r.data.prefetch_batches; },
       .meaning = "batches prepared ahead",
       .range = from_to(1, 1024), .unit = "batches"},
    }},
    {"augment", "How training images are varied.", {
      {.name = "crop_padding", .member = [](auto& r) -> auto& { return r.augment.crop_padding; },
       .meaning = "pad each side by this and crop the old size at random; 0: off",
       .range = from_to(0, 1024), .unit = "pixels"},
      {.name = "flip", .member = [](auto& r) -> auto& { return r.augment.flip; },
       .meaning = "mirror every other image, at random"},
      {.name = "cutout", .member = [](auto& r) -> auto& { return r.augment.cutout; },
       .meaning = "blank a random square with sides of this; 0: off",
       .range = from_to(0, 4096), .unit = "pixels"},
    }},
    {"batch", "How many samples make a step. Give one of the two.", {
      {.name = "global", .member = [](auto& r) -> auto& { return r.batch.global; },
       .meaning = "samples of one step, over all ranks",
       .range = from_to(1, kMostBatch), .unit = "samples", .applies = with_zero("batch.local")},
      {.name = "local", .member = [](auto& r) -> auto& { return r.batch.local; },
       .meaning = "samples of one step on each rank, in place of batch.global; 0: batch.global decides",
       .range = from_to(0, kMostBatch), .unit = "samples"},
      {.name = "milestones", .member = [](auto& r) -> auto& { return r.batch.milestones; },
       .meaning = "where the batch changes to the next of batch.sizes, in increasing order",
       .range = above_to(0, kMostEpochs), .unit = "epochs"},
      {.name = "sizes", .member = [](auto& r) -> auto& { return r.batch.sizes; },
       .meaning = "what batch.global (or batch.local, where that is given) becomes at each of batch.milestones",
       .range = from_to(1, kMostBatch), .unit = "samples"},
      {.name = "micro", .member = [](auto& r) -> auto& { return r.batch.micro; },
       .meaning = "samples that a rank computes at a time; a larger share is accumulated over several passes; 0: all at once",
       .range = from_to(0, kMostBatch), .unit = "samples"},
      {.name = "fill", .member = [](auto& r) -> auto& { return r.batch.fill; },
       .meaning = "samples that a rank takes before the next one gets any, so that small batches keep some ranks idle; 0: all share alike",
       .range = from_to(0, kMostBatch), .unit = "samples"},
      {.name = "fills", .member = [](auto& r) -> auto& { return r.batch.fills; },
       .meaning = "what batch.fill becomes at each of batch.milestones; empty: it stays",
       .range = from_to(1, kMostBatch), .unit = "samples", .applies = with_positive("batch.fill")},
    }},
    {"train", "How long, on what, and what is reported.", {
      {.name = "epochs", .member = [](auto& r) -> auto& { return r.train.epochs; },
       .meaning = "passes over the data, fractions allowed; the schedule ends here; 0: until max_steps",
       .range = from_to(0, kMostEpochs), .unit = "epochs"},
      {.name = "max_steps", .member = [](auto& r) -> auto& { return r.train.max_steps; },
       .meaning = "stop after so many, the schedule unchanged; 0: no limit",
       .range = from_to(0, kMostSteps), .unit = "steps"},
      {.name = "target_accuracy", .member = [](auto& r) -> auto& { return r.train.target_accuracy; },
       .meaning = "stop when the test accuracy reaches this fraction; 0: no target",
       .range = from_to(0, 1), .hint = "accuracies are fractions of 1: 91 % is 0.91"},
      {.name = "seed", .member = [](auto& r) -> auto& { return r.train.seed; },
       .meaning = "decides initial weights, order of the samples, augmentation and dropout",
       .range = at_least(0)},
      {.name = "device", .member = [](auto& r) -> auto& { return r.train.device; },
       .meaning = "where to compute",
       .words = {"cpu", "cuda"}},
      {.name = "precision", .member = [](auto& r) -> auto& { return r.train.precision; },
       .meaning = "the numbers of forward and backward",
       .words = {"f32"}},
      {.name = "threads", .member = [](auto& r) -> auto& { return r.train.threads; },
       .meaning = "threads that compute, on the CPU; 0: one per core",
       .range = from_to(0, kMostThreads), .unit = "threads"},
      {.name = "eval_every_epochs", .member = [](auto& r) -> auto& { return r.train.eval_every_epochs; },
       .meaning = "how often to evaluate; the end is always evaluated",
       .range = above_to(0, kMostEpochs), .unit = "epochs"},
      {.name = "log_every_steps", .member = [](auto& r) -> auto& { return r.train.log_every_steps; },
       .meaning = "how often to report loss and throughput",
       .range = from_to(1, kMostSteps), .unit = "steps"},
    }},
    {"loss", "What is minimised.", {
      {.name = "name", .member = [](auto& r) -> auto& { return r.loss.name; },
       .meaning = "which loss",
       .words = {"cross_entropy", "mse"}},
      {.name = "label_smoothing", .member = [](auto& r) -> auto& { return r.loss.label_smoothing; },
       .meaning = "spread this share of the label evenly over all classes",
       .range = from_below(0, 1), .applies = with("loss.name", {"cross_entropy"})},
    }},
    {"optimizer", "How a gradient becomes an update.", {
      {.name = "name", .member = [](auto& r) -> auto& { return r.optimizer.name; },
       .meaning = "which optimizer: sgd, lars, adam, adamw, rmsprop, adabound, hybrid (AdaBound, then LARS)"},
      {.name = "rate", .member = [](auto& r) -> auto& { return r.optimizer.rate; },
       .meaning = "the learning rate that the schedule starts from",
       .range = above(0)},
      {.name = "momentum", .member = [](auto& r) -> auto& { return r.optimizer.momentum; },
       .meaning = "the share of the last update that is kept; 0: none",
       .range = from_below(0, 1), .applies = except("optimizer.name", {"adam", "adamw", "adabound"})},
      {.name = "nesterov", .member = [](auto& r) -> auto& { return r.optimizer.nesterov; },
       .meaning = "Nesterov's form of momentum",
       .applies = with_positive("optimizer.momentum")},
      {.name = "weight_decay", .member = [](auto& r) -> auto& { return r.optimizer.weight_decay; },
       .meaning = "this times the weight joins its gradient (adamw: shrinks it directly); not for biases and batch normalisation",
       .range = at_least(0)},
      {.name = "clip_norm", .member = [](auto& r) -> auto& { return r.optimizer.clip_norm; },
       .meaning = "scale longer gradients down to this norm; 0: off",
       .range = at_least(0)},
      {.name = "eta", .member = [](auto& r) -> auto& { return r.optimizer.eta; },
       .meaning = "LARS: how far a layer moves in a step of rate 1, relative to the norm of its weights",
       .range = above(0), .applies = with("optimizer.name", {"lars", "hybrid"})},
      {.name = "epsilon", .member = [](auto& r) -> auto& { return r.optimizer.epsilon; },
       .meaning = "keeps denominators above 0; LARS: also the norm below which weights are not adapted to",
       .range = at_least(0), .applies = with("optimizer.name", {"lars", "adam", "adamw", "rmsprop", "adabound", "hybrid"})},
      {.name = "beta1", .member = [](auto& r) -> auto& { return r.optimizer.beta1; },
       .meaning = "how much of the mean of gradients is kept in a step",
       .range = from_below(0, 1), .applies = with("optimizer.name", {"adam", "adamw", "adabound", "hybrid"})},
      {.name = "beta2", .member = [](auto& r) -> auto& { return r.optimizer.beta2; },
       .meaning = "how much of the mean of their squares is kept in a step",
       .range = from_below(0, 1), .applies = with("optimizer.name", {"adam", "adamw", "adabound", "hybrid"})},
      {.name = "alpha", .member = [](auto& r) -> auto& { return r.optimizer.alpha; },
       .meaning = "how much of the mean of squared gradients is kept in a step",
       .range = from_below(0, 1), .applies = with("optimizer.name", {"rmsprop"})},
      {.name = "final_rate", .member = [](auto& r) -> auto& { return r.optimizer.final_rate; },
       .meaning = "the rate that the bounds close in on; follows the schedule as optimizer.rate does",
       .range = above(0), .applies = with("optimizer.name", {"adabound"})},
      {.name = "gamma", .member = [](auto& r) -> auto& { return r.optimizer.gamma; },
       .meaning = "how fast the bounds close in, per step",
       .range = above(0), .applies = with("optimizer.name", {"adabound"})},
      {.name = "hybrid_epochs", .member = [](auto& r) -> auto& { return r.optimizer.hybrid_epochs; },
       .meaning = "how long AdaBound warms up before LARS takes over",
       .range = above_to(0, kMostEpochs), .unit = "epochs", .applies = with("optimizer.name", {"hybrid"})},
      {.name = "adaptive_rate", .member = [](auto& r) -> auto& { return r.optimizer.adaptive_rate; },
       .meaning = "AdaBound's own rate in the warm-up, before its bounds, which close in on optimizer.rate",
       .range = above(0), .applies = with("optimizer.name", {"hybrid"})},
      {.name = "momentum_correction", .member = [](auto& r) -> auto& { return r.optimizer.momentum_correction; },
       .meaning = "when the rate changes, so does that of the momentum (Goyal); sgd needs none, its rate comes after the momentum",
       .applies = with("optimizer.name", {"lars", "hybrid"})},
      {.name = "average", .member = [](auto& r) -> auto& { return r.optimizer.average; },
       .meaning = "evaluate a moving average of the weights, of which each step keeps this share; 0: off",
       .range = from_below(0, 1)},
    }},
    {"schedule", "The learning rate as a function of the epoch.", {
      {.name = "name", .member = [](auto& r) -> auto& { return r.schedule.name; },
       .meaning = "its shape, from optimizer.rate on",
       .words = {"constant", "step", "exponential", "polynomial", "cosine"}},
      {.name = "reference_batch", .member = [](auto& r) -> auto& { return r.schedule.reference_batch; },
       .meaning = "linear scaling: optimizer.rate is multiplied by (global batch / this); 0: off",
       .range = from_to(0, kMostBatch), .unit = "samples"},
      {.name = "warmup_epochs", .member = [](auto& r) -> auto& { return r.schedule.warmup_epochs; },
       .meaning = "rise linearly for so long, to warmup_to or to where the schedule then is; 0: no warm-up",
       .range = from_to(0, kMostEpochs), .unit = "epochs"},
      {.name = "warmup_from", .member = [](auto& r) -> auto& { return r.schedule.warmup_from; },
       .meaning = "the rate at epoch 0, not scaled",
       .range = at_least(0), .applies = with_positive("schedule.warmup_epochs")},
      {.name = "warmup_to", .member = [](auto& r) -> auto& { return r.schedule.warmup_to; },
       .meaning = "the rate that the warm-up rises to, not scaled; where the schedule is elsewhere then, the rate jumps; 0: to where it is",
       .range = at_least(0), .applies = with_positive("schedule.warmup_epochs")},
      {.name = "decay_from", .member = [](auto& r) -> auto& { return r.schedule.decay_from; },
       .meaning = "the epoch at which the schedule has its full rate: 0, or the end of the warm-up",
       .words = {"start", "warmup_end"}, .applies = with("schedule.name", {"exponential", "polynomial", "cosine"})},
      {.name = "milestones", .member = [](auto& r) -> auto& { return r.schedule.milestones; },
       .meaning = "where the rate is multiplied by factor (step), or where the next of schedule.rates counts (polynomial), in increasing order",
       .range = above_to(0, kMostEpochs), .unit = "epochs", .applies = with("schedule.name", {"step", "polynomial"})},
      {.name = "rates", .member = [](auto& r) -> auto& { return r.schedule.rates; },
       .meaning = "what takes the place of optimizer.rate at each of schedule.milestones, scaled as that one; the epoch counts on",
       .range = above(0), .applies = with("schedule.name", {"polynomial"})},
      {.name = "factor", .member = [](auto& r) -> auto& { return r.schedule.factor; },
       .meaning = "what the rate is multiplied by: at each milestone (step), over each epoch (exponential)",
       .range = above(0), .applies = with("schedule.name", {"step", "exponential"})},
      {.name = "power", .member = [](auto& r) -> auto& { return r.schedule.power; },
       .meaning = "p in (1 - epoch / epochs)^p, both counted from decay_from",
       .range = above(0), .applies = with("schedule.name", {"polynomial"})},
      {.name = "end_rate", .member = [](auto& r) -> auto& { return r.schedule.end_rate; },
       .meaning = "the rate at the end, not scaled",
       .range = at_least(0), .applies = with("schedule.name", {"polynomial", "cosine"})},
      {.name = "momentum", .member = [](auto& r) -> auto& { return r.schedule.momentum; },
       .meaning = "how the momentum follows the batch: not, or so that the noise stays as with optimizer.momentum at momentum_batch",
       .words = {"constant", "noise_scale"}},
      {.name = "momentum_batch", .member = [](auto& r) -> auto& { return r.schedule.momentum_batch; },
       .meaning = "the global batch that optimizer.momentum is meant for; 0: the first one",
       .range = from_to(0, kMostBatch), .unit = "samples", .applies = with("schedule.momentum", {"noise_scale"})},
    }},
    {"batch_norm", "Batch normalisation over several ranks.", {
      {.name = "statistics", .member = [](auto& r) -> auto& { return r.batch_norm.statistics; },
       .meaning = "what evaluation uses, averaged over the ranks: moving averages, or the last step's",
       .words = {"moving_average", "last_iteration"}},
      {.name = "sync", .member = [](auto& r) -> auto& { return r.batch_norm.sync; },
       .meaning = "normalise over the samples of all ranks, not of each; costs two exchanges per layer and step, and the overlap"},
      {.name = "recompute_batches", .member = [](auto& r) -> auto& { return r.batch_norm.recompute_batches; },
       .meaning = "before each evaluation compute the statistics anew over so many training batches; 0: off",
       .range = from_to(0, 1e6), .unit = "batches"},
    }},
    {"comm", "How gradients travel.", {
      {.name = "engine", .member = [](auto& r) -> auto& { return r.comm.engine; },
       .meaning = "what carries them",
       .words = {"auto", "shm", "gloo", "mpi", "shm+gloo", "shm+mpi"}},
      {.name = "algorithm", .member = [](auto& r) -> auto& { return r.comm.algorithm; },
       .meaning = "how they are summed: \"hybrid\" chooses by size, or one of those that 'paceline explain allreduce' lists"},
      {.name = "bucket_bytes", .member = [](auto& r) -> auto& { return r.comm.bucket_bytes; },
       .meaning = "gradients are sent in buckets of about this size; 0: chosen automatically",
       .range = from_to(0, 0x1p40), .unit = "bytes"},
      {.name = "overlap", .member = [](auto& r) -> auto& { return r.comm.overlap; },
       .meaning = "send buckets while backward still runs, where that pays: between hosts, or with a core that does not compute"},
      {.name = "codec", .member = [](auto& r) -> auto& { return r.comm.codec; },
       .meaning = "how they are packed: none, fp16, bf16, int8, onebit, topk, threshold"},
      {.name = "block", .member = [](auto& r) -> auto& { return r.comm.block; },
       .meaning = "elements that share a scale",
       .range = from_to(8, 1 << 20), .unit = "elements", .applies = with("comm.codec", {"int8", "onebit"})},
      {.name = "density", .member = [](auto& r) -> auto& { return r.comm.density; },
       .meaning = "the share of elements that is sent",
       .range = above_to(0, 1), .applies = with("comm.codec", {"topk"})},
      {.name = "density_warmup", .member = [](auto& r) -> auto& { return r.comm.density_warmup; },
       .meaning = "start with 25 % and send a quarter of that after each epoch, down to the density",
       .applies = with("comm.codec", {"topk"})},
      {.name = "threshold", .member = [](auto& r) -> auto& { return r.comm.threshold; },
       .meaning = "elements of at least this magnitude are sent",
       .range = above(0), .applies = with("comm.codec", {"threshold"})},
      {.name = "error_feedback", .member = [](auto& r) -> auto& { return r.comm.error_feedback; },
       .meaning = "what a lossy codec leaves out joins the next step",
       .applies = with("comm.codec", {"int8", "onebit", "topk", "threshold"})},
      {.name = "momentum_correction", .member = [](auto& r) -> auto& { return r.comm.momentum_correction; },
       .meaning = "gather the momentum before elements are left out (Deep Gradient Compression)",
       .applies = with("comm.codec", {"topk", "threshold"})},
    }},
    {"sync", "Who waits for whom.", {
      {.name = "policy", .member = [](auto& r) -> auto& { return r.sync.policy; },
       .meaning = "the synchronisation model",
       .words = {"allreduce"}},
    }},
    {"checkpoint", "What can be resumed.", {
      {.name = "every_steps", .member = [](auto& r) -> auto& { return r.checkpoint.every_steps; },
       .meaning = "how often to write one; 0: after each epoch. One is always written at the end",
       .range = from_to(0, kMostSteps), .unit = "steps"},
      {.name = "keep", .member = [](auto& r) -> auto& { return r.checkpoint.keep; },
       .meaning = "how many to keep; older ones are removed",
       .range = from_to(1, 1e6), .unit = "checkpoints"},
    }},
  };
}
// clang-format on

std::string quoted(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const std::string& word : words) texts.push_back(print_text(word));
  return fmt::format("{}", fmt::join(texts, " or "));
}

}  // namespace

bool KeyRange::contains(double value) const {
  return (low_itself ? value >= low : value > low) && (high_itself ? value <= high : value < high);
}

bool KeyCondition::holds(const Recipe& recipe) const {
  if (kind == Kind::always) return true;
  const DeclaredKey* decides = find_key(key);
  CHECK_TRUE(decides != nullptr, "{}", key);
  const RecipeValue value = decides->member.get(recipe);
  if (kind == Kind::one_of || kind == Kind::none_of) {
    return (std::ranges::count(words, std::get<std::string>(value)) > 0) == (kind == Kind::one_of);
  }
  const double number = value.index() == 3 ? std::get<double>(value) : static_cast<double>(std::get<int64_t>(value));
  return kind == Kind::positive ? number > 0 : number == 0;
}

std::string KeyCondition::text() const {
  switch (kind) {
    case Kind::always:
      return "";
    case Kind::one_of:
      return fmt::format("{} = {}", key, quoted(words));
    case Kind::none_of:
      return fmt::format("{} other than {}", key, quoted(words));
    case Kind::positive:
      return fmt::format("{} > 0", key);
    case Kind::zero:
      return fmt::format("{} = 0", key);
  }
  return "";
}

KeyType DeclaredKey::type() const {
  switch (member.get(Recipe{}).index()) {
    case 0:
      return KeyType::boolean;
    case 1:
      return KeyType::integer;
    case 2:
      return unit == "bytes" ? KeyType::size : KeyType::integer;
    case 3:
      return KeyType::number;
    case 4:
      return KeyType::text;
    default:
      return KeyType::numbers;
  }
}

std::string DeclaredKey::allowed() const {
  const KeyType kind = type();
  if (kind == KeyType::boolean) return "true, false";
  if (kind == KeyType::text) return words.empty() ? "any" : fmt::format("{}", fmt::join(words, ", "));
  const auto bound = [&](double value) {
    return kind == KeyType::size ? print_bytes(static_cast<uint64_t>(value)) : print_number(value);
  };
  if (range.high == KeyRange{}.high) return fmt::format("{} {}", range.low_itself ? ">=" : ">", bound(range.low));
  if (range.low_itself && range.high_itself) return fmt::format("{} to {}", bound(range.low), bound(range.high));
  return fmt::format("{} {} and {} {}", range.low_itself ? ">=" : ">", bound(range.low), range.high_itself ? "<=" : "<",
                     bound(range.high));
}

const std::vector<DeclaredSection>& declared_sections() {
  static const std::vector<DeclaredSection> sections = [] {
    std::vector<DeclaredSection> declared = declare();
    for (DeclaredSection& section : declared) {
      for (DeclaredKey& key : section.keys) key.section = section.name;
    }
    return declared;
  }();
  return sections;
}

const DeclaredSection* find_section(std::string_view name) {
  for (const DeclaredSection& section : declared_sections()) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const DeclaredKey* find_key(std::string_view full_name) {
  const size_t dot = full_name.find('.');
  const DeclaredSection* section = find_section(full_name.substr(0, dot));
  if (section == nullptr || dot == std::string_view::npos) return nullptr;
  for (const DeclaredKey& key : section->keys) {
    if (key.name == full_name.substr(dot + 1)) return &key;
  }
  return nullptr;
}

std::string_view name_of(KeyType type) {
  constexpr std::string_view kNames[] = {"boolean", "integer", "number", "text", "list of numbers", "size"};
  return kNames[static_cast<size_t>(type)];
}

}  // namespace paceline
