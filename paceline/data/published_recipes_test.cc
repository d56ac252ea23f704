// The recipes in recipes/ say what their sources print: batches, ranks, steps, rates, momenta.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "paceline/data/dataset.h"
#include "paceline/data/run_phases.h"
#include "paceline/schedule/from_recipe.h"

namespace paceline {
namespace {

constexpr uint64_t kImageNet = 1'281'167;

Recipe published(const std::string& name) {
  return read_recipe(std::filesystem::path(PACELINE_SOURCE_DIR) / "recipes" / (name + ".toml"));
}

// Rate and momentum at an epoch.
struct Point {
  double epoch, rate, momentum;
};

void expect_points(const std::string& name, const std::vector<Point>& points) {
  const Recipe recipe = published(name);
  const BatchSchedule batch = batch_schedule(recipe, 1, kImageNet);
  const Schedule rate = rate_schedule(recipe, static_cast<int64_t>(batch.at(0)));
  const Schedule momentum = momentum_schedule(recipe, batch);
  for (const Point& point : points) {
    EXPECT_NEAR(rate(point.epoch), point.rate, 1e-12 * point.rate) << name << " at " << point.epoch;
    EXPECT_NEAR(momentum(point.epoch), point.momentum, 1e-12) << name << " at " << point.epoch;
  }
}

TEST(PublishedRecipes, AllOfThemHavePhases) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PACELINE_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    const Recipe recipe = read_recipe(entry.path());
    const uint64_t samples = recipe.data.train_samples > 0 ? static_cast<uint64_t>(recipe.data.train_samples)
                                                           : builtin_datasets().at(recipe.data.name).train_samples;
    const auto phases = run_phases(recipe, ranks_occupied(recipe, samples), samples);
    ASSERT_FALSE(phases.empty()) << entry.path();
    EXPECT_EQ(phases.back().to, recipe.train.epochs) << entry.path();
    EXPECT_GT(phases.front().rate_last, 0) << entry.path();
  }
  EXPECT_GE(files, 20);
}

// Their results were measured with residual blocks that begin as the identity, which is no default.
TEST(PublishedRecipes, ResidualBlocksBeginAsTheIdentityWhereTheyWereMeasuredSo) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PACELINE_SOURCE_DIR "/recipes"))
    if (entry.path().extension() == ".toml" && read_recipe(entry.path()).model.zero_gamma)
      names.push_back(entry.path().stem());
  EXPECT_THAT(names, testing::UnorderedElementsAre("cifar10_94", "cifar10_resnet20", "goyal", "lu_exponential",
                                                   "lu_hybrid", "mikami_exp1", "mikami_exp1_warmup12", "mikami_exp2",
                                                   "mikami_exp3", "mikami_exp4", "mikami_reference", "mlperf_3200",
                                                   "mlperf_32768", "mlperf_57344", "mlperf_8192", "zhang_resnet101",
                                                   "zhang_resnet34", "zhang_resnet50"));
}

// Mikami, table 3: local batch x active ranks from an epoch on, and the steps that 1,281,167 images make of it.
struct MikamiPhase {
  double from;
  uint64_t local;
  int ranks;
  uint64_t steps;
};
struct MikamiRow {
  std::string recipe;
  int gpus;
  bool label_smoothing;
  std::vector<MikamiPhase> phases;
};
const std::vector<MikamiRow> kMikamiTable3 = {
    {"mikami_reference", 1024, false, {{0, 32, 1024, 3600}}},
    {"mikami_exp1", 2176, false, {{0, 16, 2176, 1110}, {30, 32, 2176, 1140}}},
    {"mikami_exp1_warmup12", 2176, false, {{0, 16, 2176, 1110}, {30, 32, 2176, 1140}}},
    {"mikami_exp2", 3456, true, {{0, 16, 3456, 720}, {30, 32, 1728, 1440}}},
    {"mikami_exp3", 3456, true, {{0, 16, 3456, 720}, {30, 32, 2048, 1200}}},
    {"mikami_exp4", 4096, false, {{0, 16, 2176, 1110}, {30, 32, 2125, 285}, {45, 32, 2720, 450}, {75, 32, 3808, 165}}},
};

TEST(PublishedRecipes, MikamisBatchesRanksAndSteps) {
  for (const MikamiRow& row : kMikamiTable3) {
    SCOPED_TRACE(row.recipe);
    const Recipe recipe = published(row.recipe);
    EXPECT_EQ(recipe.train.epochs, 90);
    EXPECT_EQ(recipe.data.train_samples, static_cast<int64_t>(kImageNet));
    EXPECT_EQ(recipe.loss.label_smoothing, row.label_smoothing ? 0.1 : 0);
    EXPECT_LE(ranks_occupied(recipe, kImageNet), row.gpus);

    const std::vector<RunPhase> phases = run_phases(recipe, row.gpus, kImageNet);
    auto phase = phases.begin();
    for (size_t i = 0; i < row.phases.size(); ++i) {
      const MikamiPhase& expected = row.phases[i];
      const double end = i + 1 < row.phases.size() ? row.phases[i + 1].from : 90;
      uint64_t steps = 0;
      for (; phase != phases.end() && phase->from < end; ++phase) {  // the warm-up's end divides some of them
        EXPECT_GE(phase->from, expected.from);
        EXPECT_EQ(phase->share, expected.local);
        EXPECT_EQ(phase->active_ranks, expected.ranks);
        EXPECT_EQ(phase->batch, expected.local * static_cast<uint64_t>(expected.ranks));
        steps += phase->steps;
      }
      EXPECT_EQ(steps, expected.steps) << "from epoch " << expected.from;
    }
    EXPECT_EQ(phase, phases.end());
  }
}

TEST(PublishedRecipes, MikamisRatesAndMomenta) {
  const double before_5 = std::nextafter(5, 0), before_30 = std::nextafter(30, 0);
  expect_points("mikami_reference",
                {{0, 0.2, 0.9}, {2.5, 14.6, 0.9}, {18, 29 * 0.64, 0.9}, {45, 29 / 4.0, 0.9}, {90, 0, 0.9}});
  for (const char* a : {"mikami_exp1", "mikami_exp4"})
    expect_points(
        a,
        {{0, 1e-5, 0.9}, {17, 17.000005, 0.9}, {34, 34, 0.9}, {62, 34 / 4.0, 0.9}, {76, 34 / 16.0, 0.9}, {90, 0, 0.9}});
  expect_points("mikami_exp1_warmup12", {{0, 1e-5, 0.9}, {12, 34, 0.9}, {51, 34 / 4.0, 0.9}, {90, 0, 0.9}});

  const double at_54k = 1 - 0.1 * 32'768 / 55'296, at_64k = 0.95;
  EXPECT_NEAR(at_54k, 0.9407, 5e-5);
  const auto b = [&](const char* name, double later) {
    expect_points(name, {{0, 0.2, at_54k},
                         {before_5, 29, at_54k},
                         {5, 29 * std::pow(85 / 90.0, 2), at_54k},
                         {before_30, 29 * std::pow(60 / 90.0, 2), at_54k},
                         {30, 50 * std::pow(60 / 90.0, 2), later},
                         {45, 12.5, later},
                         {90, 0, later}});
  };
  b("mikami_exp2", at_54k);
  b("mikami_exp3", at_64k);
}

TEST(PublishedRecipes, GoyalAndLu) {
  expect_points("goyal",
                {{0, 0.1, 0.9}, {2.5, 1.65, 0.9}, {5, 3.2, 0.9}, {30, 0.32, 0.9}, {60, 0.032, 0.9}, {80, 0.0032, 0.9}});
  expect_points("lu_exponential", {{0, 0.1, 0.9}, {10, 2.4, 0.9}, {11, 2.16, 0.9}, {90, 2.4 * std::pow(0.9, 80), 0.9}});
  expect_points("lu_hybrid", {{0, 2.4, 0.9},
                              {std::nextafter(10, 0), 2.4, 0.9},
                              {10, 2.4, 0.9},
                              {11, 2.16, 0.9},
                              {90, 2.4 * std::pow(0.9, 80), 0.9}});
  EXPECT_EQ(ranks_occupied(published("goyal"), kImageNet), 256);
  EXPECT_EQ(ranks_occupied(published("lu_hybrid"), kImageNet), 24);
  EXPECT_EQ(ranks_occupied(published("lu_exponential"), kImageNet), 24);
}

// What the sources print beside batches and rates.
TEST(PublishedRecipes, OptimizersAndPrecisionAreTheSources) {
  for (const char* name : {"mikami_reference", "mikami_exp1", "mikami_exp2", "mikami_exp3", "mikami_exp4"}) {
    const Recipe recipe = published(name);
    EXPECT_EQ(recipe.optimizer.name, "lars") << name;
    EXPECT_EQ(recipe.optimizer.eta, 0.01) << name;
    EXPECT_EQ(recipe.optimizer.epsilon, 1e-6) << name;
    EXPECT_EQ(recipe.train.precision, "f16") << name;
    EXPECT_EQ(recipe.comm.codec, "fp16") << name;
    EXPECT_EQ(recipe.comm.algorithm, "torus2d") << name;
    EXPECT_EQ(recipe.batch_norm.statistics, "last_iteration") << name;
  }
  for (const char* name : {"lu_exponential", "lu_hybrid"}) {
    const Recipe recipe = published(name);
    EXPECT_EQ(recipe.optimizer.weight_decay, 1e-4) << name;
    EXPECT_EQ(recipe.train.precision, "f16") << name;
    EXPECT_EQ(recipe.comm.codec, "fp16") << name;
    EXPECT_EQ(recipe.batch_norm.statistics, "last_iteration") << name;
  }
  EXPECT_EQ(published("lu_hybrid").optimizer.name, "hybrid");
  EXPECT_EQ(published("lu_hybrid").optimizer.hybrid_epochs, 10);
  const Recipe goyal = published("goyal");
  EXPECT_EQ(goyal.optimizer.name, "sgd");
  EXPECT_EQ(goyal.optimizer.weight_decay, 1e-4);
}

TEST(PublishedRecipes, MlperfsRows) {
  struct Row {
    int64_t batch;
    double rate, warmup, momentum, decay, epochs;
  };
  for (const Row& row : {Row{3200, 11, 2, 0.9, 5e-5, 35}, Row{8192, 17, 5, 0.9, 2e-4, 42},
                         Row{32'768, 28, 16, 0.93, 1e-4, 60}, Row{57'344, 23, 32, 0.95, 2.5e-5, 77}}) {
    const std::string name = "mlperf_" + std::to_string(row.batch);
    const Recipe recipe = published(name);
    EXPECT_EQ(recipe.batch.global, row.batch);
    EXPECT_EQ(recipe.optimizer.weight_decay, row.decay);
    EXPECT_EQ(recipe.optimizer.name, "lars");
    EXPECT_EQ(recipe.optimizer.eta, 0.001);
    EXPECT_EQ(recipe.optimizer.epsilon, 0);
    EXPECT_EQ(recipe.loss.label_smoothing, 0.1);
    EXPECT_EQ(recipe.train.epochs, row.epochs);
    expect_points(name, {{0, 0, row.momentum},
                         {row.warmup, row.rate, row.momentum},
                         {(row.warmup + row.epochs) / 2, row.rate / 4, row.momentum},
                         {row.epochs, 0, row.momentum}});
  }
}

// The small twins have the shape of the large ones: a tenth of the epochs, a 64th of the batch, a hundredth of the
// rate.
TEST(PublishedRecipes, SmallTwinsHaveTheShapeOfTheLarge) {
  for (const std::string name : {"mikami_reference", "mikami_exp1"}) {
    const Recipe large = published(name), small = published(name + "_small");
    const Schedule large_rate = rate_schedule(large, large.batch.global),
                   small_rate = rate_schedule(small, small.batch.global);
    const BatchSchedule large_batch = batch_schedule(large, 1, kImageNet),
                        small_batch = batch_schedule(small, 1, 60'000);
    for (double epoch = 0.25; epoch < 90; epoch += 0.5) {
      EXPECT_NEAR(small_rate(epoch / 10), large_rate(epoch) / 100, 1e-9) << name << " at " << epoch;
      EXPECT_EQ(small_batch.at(epoch / 10) * 64, large_batch.at(epoch)) << name << " at " << epoch;
    }
  }
}

}  // namespace
}  // namespace paceline
