#include "paceline/core/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;

Registry<int> optimizers() {
  Registry<int> registry("optimizer");
  registry.add("sgd", 1);
  registry.add("lars", 2);
  return registry;
}

TEST(Registry, FindsWhatWasAdded) {
  const Registry<int> registry = optimizers();
  EXPECT_EQ(registry.at("sgd"), 1);
  EXPECT_EQ(registry.at("lars"), 2);
  EXPECT_TRUE(registry.contains("lars"));
  EXPECT_FALSE(registry.contains("adam"));
}

TEST(Registry, ListsItsNamesInOrder) {
  EXPECT_THAT(optimizers().names(), ElementsAre("lars", "sgd"));
  EXPECT_THAT(Registry<int>("model").names(), IsEmpty());
}

TEST(Registry, AnUnknownNameGetsTheKnownOnesAndTheNearest) {
  const Registry<int> registry = optimizers();
  EXPECT_THAT([&] { registry.at("sdg"); },
              ThrowsMessage<UsageError>("there is no optimizer 'sdg'; did you mean 'sgd'? (known: lars, sgd)"));
  EXPECT_THAT([&] { registry.at("shampoo"); },
              ThrowsMessage<UsageError>("there is no optimizer 'shampoo' (known: lars, sgd)"));
}

TEST(Registry, RefusesASecondEntryOfTheSameNameAndKeepsTheFirst) {
  Registry<int> registry = optimizers();
  EXPECT_THAT([&] { registry.add("sgd", 3); }, ThrowsMessage<UsageError>("there are two optimizers named 'sgd'"));
  EXPECT_EQ(registry.at("sgd"), 1);
}

}  // namespace
}  // namespace paceline
