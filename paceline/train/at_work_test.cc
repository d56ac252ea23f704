// What a rank shows of itself while it works alone, so that the others wait for it.
#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/test_folder.h"
#include "paceline/train/test_network.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Not;

// SGD that notes the chore whenever its state is read, as it is for a checkpoint.
class NotingSgd : public Optimizer {
 public:
  NotingSgd(std::unique_ptr<Optimizer> sgd, const Monitor& monitor, std::vector<Chore>& seen)
      : sgd_(std::move(sgd)), monitor_(monitor), seen_(seen) {}
  void step(const StepCoefficients& coefficients) override {
    EXPECT_EQ(monitor_.life().chore, Chore::none) << "a step is no work alone";
    sgd_->step(coefficients);
  }
  State state() const override {
    seen_.push_back(monitor_.life().chore);
    return sgd_->state();
  }

 private:
  std::unique_ptr<Optimizer> sgd_;
  const Monitor& monitor_;
  std::vector<Chore>& seen_;
};

TEST(AtWork, ARankShowsThatItOpensItsDataAndWritesACheckpoint) {
  const TestFolder folder;
  run_ranks(1, [&](Group& group) {
    const Monitor& monitor = group.monitor();
    std::vector<Chore> opening, reading;
    Catalog catalog = catalog_with_tiny();
    catalog.datasets.add(
        "noting", {.summary = "for tests", .open = [&](const DatasetOptions&) {
                     opening.push_back(monitor.life().chore);
                     return builtin_datasets()
                         .at("synthetic")
                         .open({.train_samples = 64, .test_samples = 8, .classes = 4, .channels = 1, .image_size = 8});
                   }});
    catalog.optimizers.add("noting", [&](std::vector<Parameter> parameters, const Recipe::Optimizer& options) {
      return std::make_unique<NotingSgd>(builtin_optimizers().at("sgd")(std::move(parameters), options), monitor,
                                         reading);
    });
    const Recipe recipe = parse_recipe(
        "[model]\nname = \"tiny\"\n[data]\nname = \"noting\"\n[batch]\nglobal = 32\n[optimizer]\nname = \"noting\"\n"
        "rate = 0.01\n[train]\nepochs = 1\nthreads = 1\n",
        "noting.toml", {});
    Trainer trainer(recipe, group, {.run_folder = {folder.path()}, .catalog = catalog});
    EXPECT_THAT(opening, AllOf(Contains(Chore::data), Each(Chore::data)));
    EXPECT_THAT(reading, Not(Contains(Chore::checkpoint)));
    trainer.run();
    EXPECT_THAT(reading, Contains(Chore::checkpoint));
    EXPECT_EQ(monitor.life().chore, Chore::none);
  });
}

}  // namespace
}  // namespace paceline
