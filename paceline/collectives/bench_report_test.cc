#include "paceline/collectives/bench_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BenchRow row(const std::string& engine, const std::string& algorithm, uint64_t bytes, double microseconds) {
  const double seconds = microseconds * 1e-6;
  return {.engine = engine,
          .algorithm = algorithm,
          .ranks = 4,
          .bytes = bytes,
          .timing = {seconds, 0.9 * seconds, 1.2 * seconds, 15, 100},
          .max_error = 6e-8,
          .chose = algorithm == "hybrid" ? "direct" : ""};
}

BenchReport example() {
  return {{.version = "0.1.0", .engine = "shm", .ranks = 4, .hosts = {"node1, AMD EPYC, 2 cores"}, .trials = 15},
          {row("shm", "ring", 1024, 8), row("shm", "direct", 1024, 4), row("shm", "hybrid", 1024, 4),
           row("openmpi", "native", 1024, 6), row("gloo-library", "native", 1024, 60), row("shm", "ring", 1 << 20, 800),
           row("shm", "direct", 1 << 20, 100), row("shm", "hybrid", 1 << 20, 100),
           row("openmpi", "native", 1 << 20, 1200), row("gloo-library", "native", 1 << 20, 600)}};
}

TEST(BenchReport, RowsHaveTheAgreedKeys) {
  const nlohmann::json json = nlohmann::json::parse(to_json(example()));
  ASSERT_EQ(json.at("rows").size(), 10u);
  const nlohmann::json& hybrid = json.at("rows").at(2);
  EXPECT_EQ(hybrid.at("engine"), "shm");
  EXPECT_EQ(hybrid.at("algorithm"), "hybrid");
  EXPECT_EQ(hybrid.at("ranks"), 4);
  EXPECT_EQ(hybrid.at("bytes"), 1024);
  EXPECT_DOUBLE_EQ(hybrid.at("microseconds"), 4);
  EXPECT_DOUBLE_EQ(hybrid.at("bus_gbps"), 2 * 3.0 / 4 * 1024 / 4e-6 * 1e-9);
  EXPECT_EQ(hybrid.at("max_error"), 6e-8);
  EXPECT_EQ(hybrid.at("chose"), "direct");
  EXPECT_EQ(hybrid.at("trials"), 15);
  EXPECT_FALSE(json.at("rows").at(3).contains("chose"));
  EXPECT_EQ(json.at("environment").at("engine"), "shm");
}

TEST(BenchReport, TheHybridIsComparedWithTheBetterPeerOfEachSize) {
  const std::vector<Speedup> speedups = hybrid_speedups(example());
  ASSERT_EQ(speedups.size(), 2u);
  EXPECT_DOUBLE_EQ(speedups[0].times, 1.5);  // OpenMPI
  EXPECT_DOUBLE_EQ(speedups[1].times, 6);    // Gloo
  EXPECT_DOUBLE_EQ(geometric_mean(speedups), 3);
}

TEST(BenchReport, TheTableMarksTheChoiceAndEndsWithTheVerdict) {
  const std::string text = to_table(example());
  EXPECT_THAT(text, HasSubstr("                           1KiB      1MiB\n"));
  EXPECT_THAT(text, HasSubstr("ring                       8.00       800\n"));
  EXPECT_THAT(text, HasSubstr("direct                     4.00*      100*\n"));
  EXPECT_THAT(text, HasSubstr("hybrid                     4.00       100\n"));
  EXPECT_THAT(text, HasSubstr("  quartiles                ±15%      ±15%\n"));
  EXPECT_THAT(text, HasSubstr("openmpi native             6.00     1,200\n"));
  EXPECT_THAT(text, HasSubstr("hybrid, times faster       1.50      6.00\n"));
  EXPECT_THAT(text, HasSubstr("3.00 times as fast in the geometric mean, 1.50 at worst (1KiB)\n"));
}

TEST(BenchReport, ABusyMachineGetsQuartilesAndNoFactors) {
  BenchReport report = example();
  EXPECT_FALSE(is_noisy(report));
  for (BenchRow& row : report.rows)
    if (row.engine == "openmpi") row.timing.upper_quartile_s = 5 * row.timing.median_s;  // 2 of 6 that are compared
  EXPECT_TRUE(is_noisy(report));
  const std::string text = to_table(report);
  EXPECT_THAT(text,
              HasSubstr("openmpi native             6.00     1,200\n  quartiles               ±205%     ±205%\n"));
  EXPECT_THAT(text,
              HasSubstr("gloo-library native        60.0       600\n  quartiles                ±15%      ±15%\n"));
  EXPECT_THAT(text, HasSubstr("No comparison: the times scatter too much"));
  EXPECT_THAT(text, Not(HasSubstr("times as fast")));
  EXPECT_THAT(text, Not(HasSubstr("times faster")));
}

TEST(BenchReport, WithoutPeersThereIsNoVerdict) {
  BenchReport report = example();
  std::erase_if(report.rows, [](const BenchRow& row) { return row.is_peer(); });
  EXPECT_THAT(hybrid_speedups(report), ::testing::IsEmpty());
  EXPECT_THAT(to_table(report), Not(HasSubstr("times")));
}

TEST(BenchReport, AnErrorBeyondRoundingIsNamed) {
  BenchReport report = example();
  EXPECT_EQ(first_wrong_result(report), std::nullopt);
  report.rows[5].max_error = 0.25;
  EXPECT_THAT(*first_wrong_result(report), HasSubstr("shm ring of 1MiB over 4 ranks is wrong"));
  report.rows[3].max_error = std::numeric_limits<double>::infinity();
  EXPECT_THAT(*first_wrong_result(report), HasSubstr("openmpi native of 1KiB"));
}

TEST(BenchReport, OneRankMovesNothing) {
  BenchRow alone = row("shm", "direct", 1024, 1);
  alone.ranks = 1;
  EXPECT_EQ(alone.bus_gbps(), 0);
}

}  // namespace
}  // namespace paceline
