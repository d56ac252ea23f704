// From the names in a recipe to the things themselves. What a recipe names wrongly is a RecipeError at its line.
#pragma once

#include <memory>

#include "paceline/comm/group.h"
#include "paceline/core/recipe.h"
#include "paceline/gradients/reducer.h"
#include "paceline/precision/loss_scaler.h"
#include "paceline/schedule/batch_size.h"
#include "paceline/train/batches.h"
#include "paceline/train/catalog.h"

namespace paceline {

DatasetPair open_data(const Recipe& recipe, const Catalog& catalog);
std::shared_ptr<Model> build_model(const Recipe& recipe, const Catalog& catalog, const Dataset& data);  // initialised
// On a GPU the filters of a convolution have the channels of each pixel side by side, as the images have: its fast
// kernels take nothing else.
std::shared_ptr<Model> placed_on(torch::Device device, std::shared_ptr<Model> model);
// For so many ranks: a codec that gathers the momentum leaves none to the optimizer, and its decay then counts as often
// as it would have with it.
std::unique_ptr<Optimizer> build_optimizer(const Recipe& recipe, const Catalog& catalog, const Model& model, int ranks);
// The same, finding its own rate where the recipe wants that, from `first_rate` on: schedule/from_recipe.h's base_rate.
std::unique_ptr<Optimizer> with_rate_of(const Recipe& recipe, const Model& model, double first_rate,
                                        std::unique_ptr<Optimizer> optimizer);
bool codec_has_the_momentum(const Recipe& recipe, int ranks);
// comm.codec with its settings, for so many ranks.
std::unique_ptr<Codec> build_codec(const Recipe& recipe, const Catalog& catalog, int ranks);
// Sums the model's gradients over the group. `timeline` may be null.
std::unique_ptr<Reducer> build_reducer(const Recipe& recipe, const Catalog& catalog, const Model& model, Group& group,
                                       Timeline* timeline, const std::string& stored_plan = "");
// This rank's share of the training samples from `cursor_samples` on, on `device`.
std::unique_ptr<Batches> open_training_batches(const Recipe& recipe, const DatasetPair& data,
                                               const BatchSchedule& batch, const Group& group, uint64_t cursor_samples,
                                               torch::Device device);
// Null without loss scaling.
std::unique_ptr<LossScaler> build_loss_scaler(const Recipe& recipe, torch::Device device);
// Where the recipe wants it, the model's batch normalisation is over all ranks from now on. The group must outlive it.
// `exchange_ns`: what statistics take to travel is added to it, within forward and backward.
void synchronise_batch_norm(const Recipe& recipe, Model& model, Group& group, int64_t& exchange_ns);
// train.threads, or this rank's share of the cores that the ranks of its host may use (core/usable_cores.h). Every rank
// of the group calls it.
int threads_per_rank(const Recipe& recipe, Group& group);
// Where this rank computes; a CUDA device becomes the current one of this thread. Ranks of a host take its devices in
// turn, and share them where there are too few.
torch::Device open_device(const Recipe& recipe, const Group& group);

}  // namespace paceline
