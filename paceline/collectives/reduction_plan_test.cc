#include "paceline/collectives/reduction_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "paceline/collectives/platforms.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

const std::vector<size_t> kCounts = {10, 400'000, 20};

ReductionPlan example() {
  const Cluster cluster = platform("gloo", 4, 1);
  return {.made_for = "4 ranks",
          .algorithms = make_plan(cluster, cluster.default_grid(), nullptr),
          .buckets = plan_buckets(kCounts, 1 << 20, 1 << 20)};
}

TEST(ReductionPlan, ComesBackFromItsText) {
  EXPECT_EQ(parse_reduction_plan(print_reduction_plan(example())), example());
}

TEST(ReductionPlan, ServesWhatItWasMadeForAndNothingElse) {
  EXPECT_TRUE(example().serves("4 ranks", kCounts));
  EXPECT_FALSE(example().serves("5 ranks", kCounts));
  EXPECT_FALSE(example().serves("4 ranks", std::vector<size_t>{10, 400'000, 21}));
  EXPECT_FALSE(example().serves("4 ranks", std::vector<size_t>{10, 400'000}));
}

TEST(ReductionPlan, RefusesATextThatIsNone) {
  for (const char* text : {"", "{}", "[1]", R"({"made_for": 3})"}) {
    EXPECT_THROW(parse_reduction_plan(text), DataError) << text;
  }
}

// `like` with all lists of steps replaced.
std::string with_steps(nlohmann::json like, const std::string& steps) {
  for (nlohmann::json& of_type : like["algorithms"]["steps"]) of_type = nlohmann::json::parse(steps);
  return like.dump();
}

TEST(ReductionPlan, RefusesStepsThatDoNotSayWhatToDoForEverySize) {
  const auto text = nlohmann::json::parse(print_reduction_plan(example()));
  const std::string last = R"({"up_to_bytes":18446744073709551615,"algorithm":"direct"}])";
  EXPECT_NO_THROW(parse_reduction_plan(with_steps(text, R"([{"up_to_bytes":8,"algorithm":"ring"},)" + last)));
  for (const std::string& steps :
       {std::string("[]"), std::string(R"([{"up_to_bytes":8,"algorithm":"ring"}])"),
        R"([{"up_to_bytes":8,"algorithm":"ring"},{"up_to_bytes":8,"algorithm":"ring"},)" + last,
        R"([{"up_to_bytes":-8,"algorithm":"ring"},)" + last, R"([{"up_to_bytes":1e300,"algorithm":"ring"},)" + last})
    EXPECT_THROW(parse_reduction_plan(with_steps(text, steps)), DataError) << steps;
}

TEST(ReductionPlan, RefusesNumbersThatAreNone) {
  for (const char* path : {"/algorithms/grid/0", "/buckets/bucket_bytes", "/buckets/buckets/0/counts/0"}) {
    for (const char* number : {"-1", "1.5", "1e300", "true", "null"}) {
      auto text = nlohmann::json::parse(print_reduction_plan(example()));
      text[nlohmann::json::json_pointer(path)] = nlohmann::json::parse(number);
      EXPECT_THROW(parse_reduction_plan(text.dump()), DataError) << path << " " << number;
    }
  }
}

}  // namespace
}  // namespace paceline
