#include "paceline/train/batch_search.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/train/assemble.h"
#include "paceline/train/gradient_pass.h"

#ifdef PACELINE_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace paceline {
namespace {

constexpr int64_t kMostBatch = 1 << 16;

void give_back_memory() {
#ifdef PACELINE_CUDA
  c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

// Room for what comes beside the passes of a step: two moments of every weight, gradients kept by a recorded step.
std::vector<torch::Tensor> room_beside(const Model& model) {
  std::vector<torch::Tensor> room;
  for (const torch::Tensor& parameter : model.parameters())
    for (int copy = 0; copy < 3; ++copy) room.push_back(torch::empty_like(parameter));
  return room;
}

// What a short last batch of an epoch computes beside a recorded step, whose memory nothing else may use.
int64_t beside_the_recorded(const Recipe& recipe, const Dataset& data, const Group& group, int64_t samples) {
  if (recipe.train.graph == "never") return 0;
  return static_cast<int64_t>(data.size()) % (samples * group.size()) / group.size();
}

bool fits(Model& model, const Recipe& recipe, const Dataset& data, torch::Device device, int64_t samples) {
  try {
    const auto room = room_beside(model);
    const ImageShape shape = data.shape();
    const torch::Tensor images = torch::zeros({samples, shape.channels, shape.height, shape.width}, device)
                                     .contiguous(torch::MemoryFormat::ChannelsLast);
    const torch::Tensor labels = torch::zeros({samples}, torch::TensorOptions(torch::kInt64).device(device));
    const GradientPass pass(model, recipe);
    for (int step = 0; step < 2; ++step)  // the second one beside the gradients of the first
      pass.gradients({.images = images, .labels = labels}, samples);
    // `device` may be "cuda", without a number: the images know theirs.
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(images.device().index());
  } catch (const c10::OutOfMemoryError&) {
    for (const torch::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
    give_back_memory();
    return false;
  }
  return true;
}

int64_t largest_here(const Recipe& recipe, const Catalog& catalog, const Group& group) {
  const torch::Device device = open_device(recipe, group);
  const DatasetPair data = open_data(recipe, catalog);
  const int64_t most = std::min(kMostBatch, static_cast<int64_t>(data.train->size()) / group.size());
  int64_t found = 0;
  {
    const std::shared_ptr<Model> model = build_model(recipe, catalog, *data.train);
    model->to(device);
    model->train();
    found = largest_that_fits(most, [&](int64_t count) {
      const int64_t beside = beside_the_recorded(recipe, *data.train, group, count);
      return fits(*model, recipe, *data.train, device, count + beside);
    });
  }
  give_back_memory();
  return found;
}

int64_t smallest_of_ranks(Group& group, int64_t mine) {
  std::vector<int64_t> all(static_cast<size_t>(group.size()));
  all[static_cast<size_t>(group.rank())] = mine;
  sum_over_ranks(group, view(all));
  return std::ranges::min(all);
}

}  // namespace

int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits) {
  int64_t found = 0, next = 1;
  for (; next <= most && fits(next); next *= 2) found = next;
  const int64_t eighth = std::max<int64_t>(found / 8, 1);
  for (int64_t above = std::min(next, most + 1); found + eighth < above;) {  // `found` fits, `above` does not
    const int64_t middle = found + std::max<int64_t>((above - found) / 2 / eighth, 1) * eighth;
    (fits(middle) ? found : above) = middle;
  }
  return found;
}

Recipe with_batch_that_fits(Recipe recipe, Group& group, int64_t before, Log* log,
                            const std::function<int64_t()>& look) {
  if (recipe.batch.local != Recipe::Batch::kLargestThatFits) return recipe;
  group.broadcast({&before, 1, DType::i64}, 0);
  recipe.batch.local = before > 0 ? before : smallest_of_ranks(group, look());
  if (recipe.batch.local == 0) recipe.refuse("batch.local", "not even one sample fits into the GPU's memory");
  if (log) log->info("batch.local = \"auto\": {} samples on each rank", recipe.batch.local);
  return recipe;
}

Recipe with_batch_that_fits(Recipe recipe, const Catalog& catalog, Group& group, int64_t before, Log* log) {
  const Recipe unsettled = recipe;
  return with_batch_that_fits(std::move(recipe), group, before, log,
                              [&] { return largest_here(unsettled, catalog, group); });
}

}  // namespace paceline
