#include "paceline/train/equal_ranks.h"

#include <gmock/gmock.h>

#include <map>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/data/memory_dataset.h"
#include "paceline/train/test_network.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

struct Refusal {
  std::string text = "none";
  ExitCode code = ExitCode::success;
  bool told = false;
};

// What each rank throws.
std::vector<Refusal> refusals(int ranks, const std::function<void(Group&)>& work) {
  std::vector<Refusal> all(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Group& group) {
    try {
      work(group);
    } catch (const Error& error) {
      all[static_cast<size_t>(group.rank())] = {error.what(), error.exit_code(), error.told()};
    }
  });
  return all;
}

// Settings by rank; a rank that is not named has none.
std::vector<Refusal> refusals_of(int ranks, const std::map<int, std::vector<std::string>>& overrides) {
  return refusals(ranks, [&](Group& group) {
    const auto own = overrides.find(group.rank());
    require_equal_recipes(tiny_recipe("", own == overrides.end() ? std::vector<std::string>() : own->second), group);
  });
}

TEST(EqualRanks, EqualRecipesPass) {
  for (const int ranks : {1, 2, 5})
    for (const Refusal& refusal : refusals_of(ranks, {})) EXPECT_EQ(refusal.text, "none");
}

TEST(EqualRanks, AnotherRecipeIsRefusedOnEveryRankWithKeyAndValues) {
  const auto all = refusals_of(3, {{1, {"optimizer.rate=0.4"}}});
  for (size_t rank = 0; rank < all.size(); ++rank) {
    EXPECT_THAT(all[rank].text, HasSubstr("rank 1 has another recipe than rank 0: optimizer.rate: 0.1 -> 0.4;"));
    EXPECT_EQ(all[rank].code, ExitCode::recipe);
    EXPECT_EQ(all[rank].told, rank != 0);
  }
}

TEST(EqualRanks, RanksThatDifferAlikeAreNamedTogether) {
  const std::vector<std::string> one = {"train.seed=7", "optimizer.weight_decay=0.5"}, other = {"train.seed=8"};
  const std::string text = refusals_of(5, {{1, one}, {2, other}, {4, one}})[0].text;
  EXPECT_THAT(text, HasSubstr("ranks 1, 4 have another recipe than rank 0: train.seed: 1 -> 7, "
                              "optimizer.weight_decay: 0 -> 0.5"));
  EXPECT_THAT(text, HasSubstr("rank 2 has another recipe than rank 0: train.seed: 1 -> 8"));
}

TEST(EqualRanks, WhatConcernsTheMachineOfARankMayDiffer) {
  const auto all = refusals(2, [&](Group& group) {
    Recipe own = tiny_recipe("", {});
    own.data.name = "mnist";  // has files
    if (group.rank() == 1) {
      own.data.root = "elsewhere";
      own.data.loader_threads = 3;
      own.data.prefetch_batches = 9;
      own.train.threads = 2;
    }
    require_equal_recipes(own, group);
  });
  for (const Refusal& refusal : all) EXPECT_EQ(refusal.text, "none");
}

// `count` images of one pixel, of which number `changed` has another value.
DatasetPair some_data(size_t count, size_t changed, int64_t label = 0) {
  const auto set = [&](size_t size) {
    std::vector<uint8_t> pixels(size, 7);
    std::vector<int64_t> labels(size, 0);
    if (changed < size) pixels[changed] = 8;
    labels.back() = label;
    return std::make_shared<MemoryDataset>(LabelledImages{{1, 1, 1}, 2, std::move(pixels), std::move(labels)});
  };
  return {.train = set(count), .test = set(3), .normalisation = {{0.5f}, {0.5f}}};
}

std::vector<Refusal> refusals_of(const DatasetPair& first, const DatasetPair& other) {
  return refusals(2, [&](Group& group) { require_equal_data(group.rank() == 0 ? first : other, group); });
}

TEST(EqualRanks, OtherDataIsRefusedOnEveryRank) {
  constexpr size_t kNone = 1000;
  for (const Refusal& refusal : refusals_of(some_data(100, kNone), some_data(100, kNone)))
    EXPECT_EQ(refusal.text, "none");
  for (const Refusal& refusal : refusals_of(some_data(100, kNone), some_data(50, kNone))) {
    EXPECT_THAT(refusal.text, HasSubstr("rank 1 has another data set than rank 0: 50 images of 1x1x1 in 2 classes to "
                                        "train, 3 images of 1x1x1 in 2 classes to test; rank 0: 100 images"));
    EXPECT_EQ(refusal.code, ExitCode::data);
  }
  for (const DatasetPair& other : {some_data(100, 0), some_data(100, 99), some_data(100, kNone, /*label=*/1)})
    EXPECT_THAT(refusals_of(some_data(100, kNone), other)[1].text, HasSubstr("other pixels or labels"));
  DatasetPair other = some_data(100, kNone);
  other.normalisation.mean[0] = 0.25f;
  EXPECT_THAT(refusals_of(some_data(100, kNone), other)[1].text, HasSubstr("other pixels or labels"));
}

TEST(EqualRanks, ATrainerRefusesThem) {
  for (const auto& [setting, what] : {std::pair("optimizer.rate=0.4", "optimizer.rate: 0.1 -> 0.4"),
                                      std::pair("data.test_samples=36", "data.test_samples: 37 -> 36")}) {
    const auto all = refusals(2, [&, setting = setting](Group& group) {
      Trainer(tiny_recipe("", group.rank() == 0 ? std::vector<std::string>() : std::vector<std::string>{setting}),
              group, {.catalog = catalog_with_tiny()});
    });
    for (const Refusal& refusal : all) EXPECT_THAT(refusal.text, HasSubstr(what));
  }
}

// Each rank opens the data that its own files have.
TEST(EqualRanks, ATrainerRefusesOtherData) {
  const auto all = refusals(2, [&](Group& group) {
    Catalog catalog = catalog_with_tiny();
    catalog.datasets.add("own", {"for tests", {}, [&](DatasetOptions options) {
                                   options.image_size = 8, options.channels = 1, options.classes = 4;
                                   options.seed += static_cast<uint64_t>(group.rank());
                                   return catalog_with_tiny().datasets.at("synthetic").open(options);
                                 }});
    Trainer(
        tiny_recipe("", {"data.name=own", "data.channels=default", "data.image_size=default", "data.classes=default"}),
        group, {.catalog = catalog});
  });
  for (const Refusal& refusal : all) EXPECT_THAT(refusal.text, HasSubstr("other pixels or labels"));
}

}  // namespace
}  // namespace paceline
