#include "paceline/metrics/run_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"
#include "paceline/metrics/line_chart.h"
#include "paceline/metrics/recorder.h"

namespace paceline {
namespace {

class RunChartTest : public testing::Test {
 protected:
  const TestFolder test_folder_;
  const std::filesystem::path folder_ = test_folder_.path();

  static std::string svg_of(const std::vector<Series>& loss, const std::vector<Series>& accuracy,
                            const std::string& title) {
    return line_chart_svg({{"Loss", "epoch", "loss", loss, {}, /*x_from_zero=*/true},
                           {"Accuracy", "epoch", "accuracy, %", accuracy, {}, /*x_from_zero=*/true}},
                          {}, title);
  }
};

// A short run: its first evaluation does not lie on the axis, and the file says whose it is.
TEST_F(RunChartTest, BeginsAtEpochZeroAndHasATitle) {
  {
    Recorder recorder(folder_, 0);
    for (const double epoch : {1.0, 2.0}) recorder.record("test", 1, epoch, 1, {{"loss", 1}});
  }
  Recipe recipe;
  recipe.title = "mine";
  recipe.model.name = "small_cnn";
  recipe.data.name = "mnist";
  EXPECT_EQ(chart_title(recipe), "mine: small_cnn on mnist");
  const std::string svg = run_chart_svg(folder_, chart_title(recipe));
  EXPECT_THAT(svg, testing::HasSubstr(">mine: small_cnn on mnist</text>"));
  EXPECT_THAT(svg, testing::HasSubstr("text-anchor=\"middle\">0.0</text>"));  // the first tick of the epochs
}

TEST_F(RunChartTest, DrawsLossAndAccuracyInPercentOfTrainingAndTest) {
  {
    Recorder recorder(folder_, 0);
    recorder.record("train", 1, 0.5, 1, {{"loss", 2}, {"accuracy", 0.25}, {"rate", 9}});
    recorder.record("train", 2, 1.0, 2, {{"accuracy", 0.5}, {"loss", 1}});
    recorder.record("test", 2, 1.0, 2, {{"loss", 1.5}, {"accuracy", 0.375}});
  }
  const std::vector<std::pair<double, double>> train_accuracy = {{0.5, 25}, {1, 50}};
  EXPECT_EQ(run_chart_svg(folder_, "mine: a model"),
            svg_of({{"train", {{0.5, 2}, {1, 1}}}, {"test", {{1, 1.5}}}},
                   {{"train", train_accuracy}, {"test", {{1, 37.5}}}}, "mine: a model"));
}

TEST_F(RunChartTest, PassesOverWhatItCannotRead) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"kind\":\"train\",\"epoch\":1,\"loss\":2}\n"
                                              "{\"kind\":\"other\",\"epoch\":2,\"loss\":2}\n"
                                              "{\"kind\":7,\"epoch\":2,\"loss\":2}\n"
                                              "{\"epoch\":2,\"loss\":2}\n"
                                              "{\"kind\":\"train\",\"epoch\":null,\"loss\":2}\n"
                                              "[1]\n\n"
                                              "{\"kind\":\"train\",\"epoch\":3,\"lo";
  EXPECT_EQ(run_chart_svg(folder_, ""), svg_of({{"train", {{1, 2}}}, {"test", {}}}, {{"train", {}}, {"test", {}}}, ""));
}

TEST_F(RunChartTest, ALossThatIsNullLeavesAGap) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"kind\":\"train\",\"epoch\":1,\"loss\":2}\n"
                                              "{\"kind\":\"train\",\"epoch\":2,\"loss\":null}\n"
                                              "{\"kind\":\"train\",\"epoch\":3,\"loss\":2}\n";
  const std::string svg = run_chart_svg(folder_, "");
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("fill=\"none\" stroke=\"#0072b2\"")));  // two dots, no line between
  EXPECT_THAT(svg, testing::HasSubstr("<circle "));
}

TEST_F(RunChartTest, NoMetricsAreAFileError) {
  EXPECT_THAT([&] { run_chart_svg(folder_, ""); },
              testing::ThrowsMessage<FileError>(testing::HasSubstr("metrics.jsonl")));
}

}  // namespace
}  // namespace paceline
