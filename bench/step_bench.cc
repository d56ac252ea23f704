// Our side of bench/step.py: makes training steps on request, so that another program's steps can go in between.
//
//   step_bench RECIPE [KEY=VALUE]...
//
// Each line on standard input is a number of steps to make; each answer is a line "SECONDS WAITED": the time of those
// steps, loading included, and how much of it was spent waiting for the loader. Ends with the input.
#include <ATen/Parallel.h>

#include <cstdio>
#include <iostream>

#include "paceline/comm/engine_local.h"
#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/core/process_tuning.h"
#include "paceline/train/assemble.h"
#include "paceline/train/batches.h"
#include "paceline/train/step.h"

namespace paceline {
namespace {

void serve(const Recipe& recipe) {
  at::set_num_threads(static_cast<int>(recipe.train.threads));
  const Catalog catalog;
  const DatasetPair data = open_data(recipe, catalog);
  const std::shared_ptr<Model> model = build_model(recipe, catalog, *data.train);
  model->train();
  const auto group = make_local_group();
  const auto optimizer = build_optimizer(recipe, catalog, *model, group->size());
  const auto reducer = build_reducer(recipe, catalog, *model, *group, nullptr);
  const LoaderOptions options = {.global_batch = static_cast<uint64_t>(recipe.batch.global)};
  const auto batches = make_batches({data.train, data.normalisation, options}, torch::kCPU, {}, "never");
  TrainStep train_step(model, *optimizer, *group, recipe, *reducer, nullptr);

  const SteadyClock clock;
  int64_t step = 0;
  for (int64_t wanted; std::cin >> wanted;) {
    const int64_t waited_before = batches->waited_ns(), from_ns = clock.now_ns();
    for (int64_t i = 0; i < wanted; ++i) {
      const TrainingBatch& batch = batches->next();
      const StepOutcome outcome = train_step.make({.batch = batch,
                                                   .global_count = static_cast<int64_t>(batch.global_count),
                                                   .step = step++,
                                                   .rate = recipe.optimizer.rate,
                                                   .momentum = recipe.optimizer.momentum});
      CHECK_TRUE(std::isfinite(outcome.loss_sum.item<float>()), "the loss is not finite at step {}", step);
    }
    std::printf("%.9f %.9f\n", seconds_between(from_ns, clock.now_ns()),
                seconds_between(waited_before, batches->waited_ns()));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::tune_process(argv);  // as the program does
  try {
    if (argc < 2) throw paceline::UsageError("usage: step_bench RECIPE [KEY=VALUE]...");
    paceline::serve(paceline::read_recipe(argv[1], std::vector<std::string>(argv + 2, argv + argc)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_bench: %s\n", error.what());
    return 1;
  }
}
