#include "paceline/core/nearest.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

const std::vector<std::string> kModels = {"lenet", "resnet18", "resnet20", "resnet50", "vgg16"};

TEST(Nearest, FindsTheNameOneEditAway) {
  EXPECT_EQ(nearest("resne18", kModels), "resnet18");    // a letter is missing
  EXPECT_EQ(nearest("ressnet50", kModels), "resnet50");  // one too many
  EXPECT_EQ(nearest("vgg19", kModels), "vgg16");         // another one
  EXPECT_EQ(nearest("lneet", kModels), "lenet");         // neighbours swapped
}

TEST(Nearest, ASwapOfNeighboursIsOneEdit) {
  EXPECT_EQ(nearest("abdc", {"abxy", "abcd"}), "abcd");  // one edit against two
}

TEST(Nearest, FindsAnExactName) { EXPECT_EQ(nearest("vgg16", kModels), "vgg16"); }

TEST(Nearest, TakesTheFirstAtEqualDistance) { EXPECT_EQ(nearest("resnet10", kModels), "resnet18"); }

TEST(Nearest, SuggestsNothingFarAway) {
  EXPECT_EQ(nearest("transformer", kModels), std::nullopt);
  EXPECT_EQ(nearest("", kModels), std::nullopt);
  EXPECT_EQ(nearest("lenet", {}), std::nullopt);
}

TEST(Nearest, SuggestsNoShortNameThatSharesNoLetter) { EXPECT_EQ(nearest("ab", {"xy", "c"}), std::nullopt); }

TEST(DidYouMean, IsAClauseOrNothing) {
  EXPECT_EQ(did_you_mean("resnet81", kModels), "; did you mean 'resnet18'?");
  EXPECT_EQ(did_you_mean("transformer", kModels), "");
}

}  // namespace
}  // namespace paceline
