#include "paceline/collectives/explain.h"

#include <gmock/gmock.h>

#include "paceline/collectives/platforms.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string explain(const std::string& name, int ranks, uint64_t bytes, const Measured& measured = {}) {
  const Cluster cluster = platform(name, ranks);
  return explain_all_reduce(cluster, cluster.default_grid(), bytes, measured);
}

std::vector<std::string> names(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.name);
  return names;
}

TEST(Explain, ListsEveryCandidateThatApplies) {
  const Cluster hosts = platform("abci", 64);
  EXPECT_THAT(names(all_reduce_candidates(hosts, {8, 8}, 64'000'000, {})),
              ::testing::UnorderedElementsAre("ring", "recursive_doubling", "halving_doubling", "hierarchical",
                                              "torus2d", "node_aware", "node_aware_pipelined"));
  const Cluster machine = platform("shm", 4);
  EXPECT_THAT(names(all_reduce_candidates(machine, {2, 2}, 64'000'000, {})),
              ::testing::UnorderedElementsAre("ring", "recursive_doubling", "halving_doubling", "torus2d", "direct",
                                              "direct_eager"));
}

TEST(Explain, HostsOfDifferentSizeLeaveTheHierarchicalWayButNotTheNodeAwareOne) {
  const std::string text = explain("abci", 7, 1'000'000);
  EXPECT_THAT(text, HasSubstr("hierarchical"));
  EXPECT_THAT(text, Not(HasSubstr("node_aware")));
  EXPECT_THAT(text, HasSubstr("7 ranks on 2 hosts of up to 4 (abci)"));
}

TEST(Explain, TheFirstLineSaysWhichAndWhy) {
  EXPECT_THAT(explain("abci", 4096, 51'200'000), StartsWith("node_aware_pipelined: "));
  EXPECT_THAT(explain("abci", 4096, 51'200'000),
              HasSubstr("the next best: node_aware in segments, host and network at the same time.\n"));
  EXPECT_THAT(explain("shm", 4, 256), StartsWith("direct_eager: "));
  EXPECT_THAT(explain("shm", 4, 256), HasSubstr("fewer steps (1 instead of 2)"));
  EXPECT_THAT(explain("shm", 4, 64'000'000), StartsWith("direct: "));
}

TEST(Explain, TheTableHasStepsBytesTimeAndShareOfTheBound) {
  const std::string text = explain("abci", 4096, 51'200'000);
  EXPECT_THAT(text, HasSubstr("by the model's links no way takes less than 4.092 ms"));
  EXPECT_THAT(text, HasSubstr("torus2d 64x64              252"));
  EXPECT_THAT(text, HasSubstr("ring                     8,190"));
}

TEST(Explain, WhatWasMeasuredDecides) {
  const Measured measured = {{"ring", 1e-3}, {"direct", 2e-3}, {"direct_eager", 4e-3}};
  const Cluster cluster = platform("shm", 2);
  const auto candidates = all_reduce_candidates(cluster, {2, 1}, 4'000'000, measured);
  const auto ring = std::ranges::find(candidates, "ring", &Candidate::name);
  EXPECT_EQ(ring->measured_seconds, 1e-3);
  EXPECT_EQ(ring->seconds(), 1e-3);
  EXPECT_DOUBLE_EQ(ring->share_of_bound, bound_seconds(cluster, 4e6) / 1e-3);
  EXPECT_TRUE(std::ranges::is_sorted(candidates, {}, &Candidate::seconds));
  EXPECT_THAT(explain("shm", 2, 4'000'000, measured), HasSubstr("1.000 ms"));
}

TEST(Explain, OneRankHasNothingToExchange) {
  EXPECT_THAT(explain("shm", 1, 1'000), StartsWith("ring: a single rank has nothing to exchange."));
}

TEST(Explain, NoBytesAreNoTrouble) { EXPECT_THAT(explain("mpi", 4, 0), HasSubstr("0.0 %")); }

}  // namespace
}  // namespace paceline
