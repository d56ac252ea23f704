#include "paceline/collectives/hybrid.h"

#include <gmock/gmock.h>

#include <mutex>

#include "paceline/collectives/platforms.h"
#include "paceline/comm/engine_local.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

void expect_sum(Group& group, AllReduce& all_reduce, size_t count) {
  std::vector<float> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<float>((group.rank() + 1) * (i % 13));
  all_reduce.run(view(data), ReduceOp::sum);
  const int factor = group.size() * (group.size() + 1) / 2;
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], static_cast<float>(factor * static_cast<int>(i % 13)));
}

Plan plan_with_two_switches() {
  Plan plan = parse_plan(print_plan(make_plan(platform("shm", 2), {2, 1}, nullptr)));
  for (auto& [dtype, steps] : plan.steps) steps = {{400, "direct_eager"}, {4000, "ring"}, {kAnySize, "direct"}};
  return plan;
}

// Milliseconds instead of seconds.
HybridOptions quick(const TestFolder& folder) {
  return {.profile_folder = folder.path(),
          .profile = {.smallest_bytes = 256, .largest_bytes = 4096, .trials = 1, .budget_s = 0.01}};
}

TEST(Hybrid, GivesTheSumOnBothSidesOfEverySwitch) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    run_ranks(ranks, [](Group& group) {
      Plan plan = plan_with_two_switches();
      plan.grid = {group.size(), 1};
      Hybrid hybrid(group, plan);
      for (const size_t count : {0, 1, 99, 100, 101, 999, 1000, 1001, 20'000}) expect_sum(group, hybrid, count);
    });
}

TEST(Hybrid, ReducesEveryType) {
  run_ranks(3, [](Group& group) {
    Hybrid hybrid(group, plan_with_two_switches());
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64}) {
      std::vector<uint8_t> data(5 * size_of(dtype));
      hybrid.run({data.data(), 5, dtype}, ReduceOp::sum);
      EXPECT_THAT(data, Each(0));
    }
  });
}

TEST(Hybrid, EveryRankHasTheSamePlanAfterMeasuringAndLeavesAProfile) {
  for (int ranks = 2; ranks <= 5; ++ranks) {
    const TestFolder folder;
    std::mutex mutex;
    std::vector<Plan> plans;
    run_ranks(ranks, [&](Group& group) {
      const auto hybrid = make_hybrid(group, quick(folder));
      for (const size_t count : {1, 100, 5000}) expect_sum(group, *hybrid, count);
      const std::lock_guard lock(mutex);
      plans.push_back(hybrid->plan());
    });
    EXPECT_THAT(plans, SizeIs(ranks));
    EXPECT_THAT(plans, Each(plans[0]));
    EXPECT_TRUE(plans[0].measured);
    const Profile profile = parse_profile(read_file(folder.path() / profile_name("local", fmt::format("{}x1", ranks))));
    EXPECT_EQ(profile.fingerprint.ranks, ranks);
    EXPECT_THAT(profile.fingerprint.hosts, SizeIs(1));
    EXPECT_EQ(profile.rows[0].bytes, 256u);
  }
}

// What two ranks decide, one after the other, is written down by rank 0.
struct Decided {
  PlanDecision decision;
  std::string warnings;
};
Decided decide(const HybridOptions& options) {
  Decided decided;
  run_ranks(2, [&](Group& group) {
    HybridOptions with_warnings = options;
    with_warnings.warn = [&](const std::string& text) { decided.warnings += text; };
    const PlanDecision decision = decide_plan(group, with_warnings);
    if (group.rank() == 0) decided.decision = decision;
  });
  return decided;
}

TEST(DecidePlan, MeasuresOnceAndThenUsesWhatWasStored) {
  const TestFolder folder;
  const Decided first = decide(quick(folder));
  EXPECT_TRUE(first.decision.measured_now);
  const Decided second = decide(quick(folder));
  EXPECT_FALSE(second.decision.measured_now);
  EXPECT_EQ(second.decision.profile, first.decision.profile);
  EXPECT_EQ(second.decision.plan, first.decision.plan);
  EXPECT_EQ(first.warnings + second.warnings, "");
}

TEST(DecidePlan, MeasuresAgainWhenAskedToOrWhenVersionOrHostChanged) {
  const TestFolder folder;
  const Decided first = decide(quick(folder));
  HybridOptions always = quick(folder);
  always.measure = HybridOptions::Measure::always;
  EXPECT_TRUE(decide(always).decision.measured_now);
  for (const bool version : {true, false}) {
    Profile other = first.decision.profile;
    (version ? other.fingerprint.version : other.fingerprint.hosts.at(0)) += " of yesterday";
    store_profile(first.decision.profile_file, other);
    EXPECT_TRUE(decide(quick(folder)).decision.measured_now);
  }
}

TEST(DecidePlan, ReplacesADamagedProfileWithAWarning) {
  const TestFolder folder;
  const std::filesystem::path file = decide(quick(folder)).decision.profile_file;
  replace_file(file, "no profile");
  const Decided again = decide(quick(folder));
  EXPECT_TRUE(again.decision.measured_now);
  EXPECT_THAT(again.warnings, HasSubstr(file.string()));
  EXPECT_EQ(parse_profile(read_file(file)), again.decision.profile);
}

TEST(DecidePlan, GoesOnWhenTheProfileCannotBeKept) {
  const TestFolder folder;
  replace_file(folder.path() / "a file", "");
  HybridOptions options = quick(folder);
  options.profile_folder = folder.path() / "a file";
  const Decided decided = decide(options);
  EXPECT_TRUE(decided.decision.plan.measured);
  EXPECT_THAT(decided.warnings, HasSubstr("the profile is not kept"));
}

TEST(DecidePlan, WithoutMeasuringTheModelDecides) {
  const TestFolder folder;
  HybridOptions never = quick(folder);
  never.measure = HybridOptions::Measure::never;
  const Decided decided = decide(never);
  EXPECT_FALSE(decided.decision.measured_now);
  EXPECT_FALSE(decided.decision.plan.measured);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DecidePlan, OneRankMeasuresNothing) {
  const TestFolder folder;
  const auto group = make_local_group();
  EXPECT_FALSE(decide_plan(*group, quick(folder)).measured_now);
}

TEST(MeasureProfile, HasEveryAlgorithmThatAppliesAtEverySizeAndType) {
  run_ranks(4, LocalOptions{.topology = Topology({"a", "a", "b", "b"})}, [](Group& group) {
    const Cluster cluster = cluster_of(group);
    const Profile profile = measure_profile(group, cluster.default_grid(),
                                            {.dtypes = {DType::f32, DType::f16},
                                             .smallest_bytes = 256,
                                             .largest_bytes = 1024,
                                             .trials = 1,
                                             .budget_s = 1000});
    size_t applying = 0;
    for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) applying += algorithm.applies(cluster) ? 1 : 0;
    EXPECT_THAT(profile.rows, SizeIs(applying * 2 * 2));
    EXPECT_EQ(profile.fingerprint.layout, "2x2");
    EXPECT_THAT(profile.fingerprint.hosts, SizeIs(2));
  });
}

// In the second measurement something disturbed everything, and ring most of all: it is no safe choice.
TEST(MeasureProfile, TheWorseOfTwoMeasurementsDecides) {
  const std::vector<ProfileRow> first = {
      {"ring", DType::f32, 1024, 1e-6}, {"native", DType::f32, 1024, 1.2e-6}, {"ring", DType::f32, 4096, 5e-6}};
  const std::vector<ProfileRow> second = {{"ring", DType::f32, 1024, 9e-6}, {"native", DType::f32, 1024, 3e-6}};
  const std::vector<ProfileRow> rows = combined(first, second);
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_NEAR(rows[0].seconds, 3e-6, 1e-18);    // three times the quickest, in the second
  EXPECT_NEAR(rows[1].seconds, 1.2e-6, 1e-18);  // 1.2 times, in the first
  EXPECT_EQ(rows[2].seconds, 5e-6);             // measured once
}

TEST(MeasureProfile, DisagreementIsTheMedianOfWhatWasMeasuredTwice) {
  const std::vector<ProfileRow> first = {{"ring", DType::f32, 1024, 1e-6},
                                         {"native", DType::f32, 1024, 8e-6},
                                         {"direct", DType::f32, 1024, 1e-6},
                                         {"ring", DType::f32, 4096, 5e-6}};
  const std::vector<ProfileRow> second = {
      {"ring", DType::f32, 1024, 9e-6}, {"native", DType::f32, 1024, 2e-6}, {"direct", DType::f32, 1024, 1e-6}};
  EXPECT_DOUBLE_EQ(disagreement_of(first, second), 4);  // of 9, 4 and 1
  EXPECT_EQ(disagreement_of(first, {}), 1);
}

}  // namespace
}  // namespace paceline
