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
};

TEST_F(RunChartTest, DrawsLossAndAccuracyInPercentOfTrainingAndTest) {
  {
    Recorder recorder(folder_, 0);
    recorder.record("train", 1, 0.5, 1, {{"loss", 2}, {"accuracy", 0.25}, {"rate", 9}});
    recorder.record("train", 2, 1.0, 2, {{"accuracy", 0.5}, {"loss", 1}});
    recorder.record("test", 2, 1.0, 2, {{"loss", 1.5}, {"accuracy", 0.375}});
  }
  const std::vector<std::pair<double, double>> train_accuracy = {{0.5, 25}, {1, 50}};
  EXPECT_EQ(run_chart_svg(folder_),
            line_chart_svg({{"Loss", "epoch", "loss", {{"train", {{0.5, 2}, {1, 1}}}, {"test", {{1, 1.5}}}}},
                            {"Accuracy", "epoch", "accuracy, %", {{"train", train_accuracy}, {"test", {{1, 37.5}}}}}}));
}

TEST_F(RunChartTest, PassesOverWhatItCannotRead) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"kind\":\"train\",\"epoch\":1,\"loss\":2}\n"
                                              "{\"kind\":\"other\",\"epoch\":2,\"loss\":2}\n"
                                              "{\"kind\":7,\"epoch\":2,\"loss\":2}\n"
                                              "{\"epoch\":2,\"loss\":2}\n"
                                              "{\"kind\":\"train\",\"epoch\":null,\"loss\":2}\n"
                                              "[1]\n\n"
                                              "{\"kind\":\"train\",\"epoch\":3,\"lo";
  EXPECT_EQ(run_chart_svg(folder_),
            line_chart_svg({{"Loss", "epoch", "loss", {{"train", {{1, 2}}}, {"test", {}}}},
                            {"Accuracy", "epoch", "accuracy, %", {{"train", {}}, {"test", {}}}}}));
}

TEST_F(RunChartTest, ALossThatIsNullLeavesAGap) {
  std::ofstream(folder_ / "metrics.jsonl") << "{\"kind\":\"train\",\"epoch\":1,\"loss\":2}\n"
                                              "{\"kind\":\"train\",\"epoch\":2,\"loss\":null}\n"
                                              "{\"kind\":\"train\",\"epoch\":3,\"loss\":2}\n";
  const std::string svg = run_chart_svg(folder_);
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("fill=\"none\" stroke=\"#0072b2\"")));  // two dots, no line between
  EXPECT_THAT(svg, testing::HasSubstr("<circle "));
}

TEST_F(RunChartTest, NoMetricsAreAFileError) {
  EXPECT_THAT([&] { run_chart_svg(folder_); }, testing::ThrowsMessage<FileError>(testing::HasSubstr("metrics.jsonl")));
}

}  // namespace
}  // namespace paceline
