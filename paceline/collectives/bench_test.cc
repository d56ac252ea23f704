#include "paceline/collectives/bench.h"

#include <gmock/gmock.h>

#include "paceline/collectives/platforms.h"
#include "paceline/comm/engine_local.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

BenchOptions quick(const TestFolder& folder) {
  return {.measure = {.trials = 2, .batch_s = 1e-5},
          .hybrid = {.profile_folder = folder.path(),
                     .profile = {.smallest_bytes = 256, .largest_bytes = 1024, .trials = 1, .budget_s = 0.01}}};
}

std::string refusal(const BenchOptions& options) {
  try {
    check(options, platform("shm", 4));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Bench, MeasuresEveryAlgorithmThatAppliesAndTheHybridAtEverySize) {
  const TestFolder folder;
  run_ranks(2, [&](Group& group) {
    BenchOptions options = quick(folder);
    options.bytes = {4, 1000, 4};
    const BenchReport report = bench_all_reduce(group, {}, options);
    std::vector<std::string> rows;
    for (const BenchRow& row : report.rows) rows.push_back(fmt::format("{} {}", row.algorithm, row.bytes));
    EXPECT_THAT(rows, ::testing::ElementsAre("ring 4", "recursive_doubling 4", "halving_doubling 4", "torus2d 4",
                                             "direct 4", "direct_eager 4", "hybrid 4", "ring 1000",
                                             "recursive_doubling 1000", "halving_doubling 1000", "torus2d 1000",
                                             "direct 1000", "direct_eager 1000", "hybrid 1000"));
    for (const BenchRow& row : report.rows) {
      EXPECT_EQ(row.engine, "local");
      EXPECT_EQ(row.ranks, 2);
      EXPECT_GT(row.timing.median_s, 0);
      EXPECT_EQ(row.chose.empty(), row.algorithm != "hybrid");
    }
    EXPECT_EQ(first_wrong_result(report), std::nullopt);
    EXPECT_EQ(report.environment.layout, "2x1");
  });
}

// A library that forgets to sum.
class Forgetful : public Group {
 public:
  explicit Forgetful(const Group& group)
      : Group({.rank = group.rank(),
               .engine = "forgetful",
               .world_ranks = group.world_ranks(),
               .topology = group.topology()},
              group.shared_monitor()) {}
  void native_all_reduce(TensorView, ReduceOp) override {}

 protected:
  Work start_send(TensorView, int) override { return {}; }
  Work start_receive(TensorView, int) override { return {}; }
  std::unique_ptr<Group> make_split(GroupIdentity, const std::vector<int>&) override { return nullptr; }
};

TEST(Bench, APeerIsMeasuredBesideAndAWrongResultOfItsIsFound) {
  const TestFolder folder;
  run_ranks(2, [&](Group& group) {
    Forgetful library(group);
    BenchOptions options = quick(folder);
    options.bytes = {1024};
    options.algorithms = {"hybrid"};
    const BenchReport report = bench_all_reduce(group, {{"openmpi", &library}}, options);
    ASSERT_EQ(report.rows.size(), 2u);
    EXPECT_EQ(report.rows[1].engine, "openmpi");
    EXPECT_EQ(report.rows[1].algorithm, "native");
    EXPECT_EQ(hybrid_speedups(report).size(), 1u);
    EXPECT_THAT(first_wrong_result(report).value_or(""), HasSubstr("openmpi native of 1KiB over 2 ranks is wrong"));
  });
}

TEST(Bench, SaysWhatItCannotMeasure) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.bytes = {1000}, .algorithms = {"ring", "hybrid"}, .peers = {"openmpi", "gloo"}}), "");
  EXPECT_THAT(refusal({.bytes = {1001}}), HasSubstr("1001 bytes are no whole number of f32"));
  EXPECT_THAT(refusal({.bytes = {0}}), HasSubstr("multiples of 4"));
  EXPECT_THAT(refusal({.algorithms = {"rong"}}), HasSubstr("did you mean 'ring'"));
  EXPECT_THAT(refusal({.algorithms = {"native"}}), HasSubstr("native does not apply to engine shm with 4 ranks"));
  EXPECT_THAT(refusal({.peers = {"opnmpi"}}), HasSubstr("did you mean 'openmpi'"));
}

}  // namespace
}  // namespace paceline
