#include "paceline/metrics/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using testing::HasSubstr;

class RecorderTest : public testing::Test {
 protected:
  std::string lines() const { return read_file(folder_ / "metrics.jsonl"); }
  void write(const std::string& text) const { std::ofstream(folder_ / "metrics.jsonl") << text; }

  std::string events() const {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) all += read_file(entry.path());
    }
    return all;
  }

  const TestFolder test_folder_;
  const std::filesystem::path folder_ = test_folder_.path();
};

std::string step_line(int step) { return "{\"kind\":\"train\",\"step\":" + std::to_string(step) + ",\"loss\":1.0}\n"; }

TEST_F(RecorderTest, WritesOneObjectALineInTheGivenOrder) {
  Recorder recorder(folder_ / "runs" / "first", 0);  // makes the folder
  recorder.record("train", 10, 0.5, 1.25, {{"loss", 0.1}, {"accuracy", 1}});
  recorder.record("test", 10, 0.5, 1.5, {});
  recorder.flush();
  EXPECT_EQ(read_file(folder_ / "runs" / "first" / "metrics.jsonl"),
            "{\"kind\":\"train\",\"step\":10,\"epoch\":0.5,\"seconds\":1.25,\"loss\":0.1,\"accuracy\":1.0}\n"
            "{\"kind\":\"test\",\"step\":10,\"epoch\":0.5,\"seconds\":1.5}\n");
}

TEST_F(RecorderTest, OneOfSeveralThingsHasItsName) {
  Recorder recorder(folder_, 0);
  recorder.record_of("layer", "fc.weight", 10, 0.5, 1.25, {{"weight_norm", 2}, {"gradient_norm", NAN}});
  recorder.flush();
  EXPECT_EQ(
      lines(),
      "{\"kind\":\"layer\",\"step\":10,\"epoch\":0.5,\"seconds\":1.25,\"layer\":\"fc.weight\",\"weight_norm\":2.0,"
      "\"gradient_norm\":null}\n");
  EXPECT_THAT(events(), HasSubstr("layer/fc.weight/weight_norm"));
}

TEST_F(RecorderTest, NumbersComeBackExactly) {
  Recorder recorder(folder_, 0);
  recorder.record("train", int64_t{1} << 53, 1.0 / 3, 1e-300, {{"loss", 0.1f}, {"rate", 1.7976931348623157e308}});
  recorder.flush();
  const auto line = nlohmann::json::parse(lines());
  EXPECT_EQ(line["step"], int64_t{1} << 53);
  EXPECT_EQ(line["epoch"].get<double>(), 1.0 / 3);
  EXPECT_EQ(line["seconds"].get<double>(), 1e-300);
  EXPECT_EQ(line["loss"].get<double>(), static_cast<double>(0.1f));
  EXPECT_EQ(line["rate"].get<double>(), 1.7976931348623157e308);
}

TEST_F(RecorderTest, WhatIsNotFiniteIsNull) {
  Recorder recorder(folder_, 0);
  recorder.record("train", 1, 0, 0, {{"loss", NAN}, {"norm", INFINITY}, {"low", -INFINITY}});
  recorder.flush();
  EXPECT_THAT(lines(), HasSubstr("\"loss\":null,\"norm\":null,\"low\":null}"));
}

TEST_F(RecorderTest, NamesAreEscaped) {
  Recorder recorder(folder_, 0);
  recorder.record("train", 1, 0, 0, {{"a\"b\\c\n", 1}});
  recorder.flush();
  EXPECT_EQ(nlohmann::json::parse(lines())["a\"b\\c\n"], 1);
}

TEST_F(RecorderTest, TagsForTensorBoardCarryTheKind) {
  Recorder recorder(folder_, 0);
  recorder.record("train", 1, 0, 0, {{"loss", 2}});
  recorder.record("test", 1, 0, 0, {{"accuracy", 0.5}});
  recorder.flush();
  EXPECT_THAT(events(), testing::AllOf(HasSubstr("train/loss"), HasSubstr("test/accuracy")));
}

TEST_F(RecorderTest, FlushesByItselfOnceASecondAndAfterATest) {
  Recorder recorder(folder_, 0);
  recorder.record("train", 1, 0, 0.9, {});
  EXPECT_EQ(lines(), "");
  recorder.record("train", 2, 0, 1.0, {});
  EXPECT_EQ(std::ranges::count(lines(), '\n'), 2);
  recorder.record("train", 3, 0, 1.9, {});
  EXPECT_EQ(std::ranges::count(lines(), '\n'), 2);
  recorder.record("test", 3, 0, 1.9, {});
  EXPECT_EQ(std::ranges::count(lines(), '\n'), 4);
}

TEST_F(RecorderTest, AResumedRunDropsTheStepsThatComeAgain) {
  write(step_line(1) + step_line(2) + step_line(3) + step_line(4));
  Recorder recorder(folder_, 2);
  EXPECT_EQ(lines(), step_line(1) + step_line(2));
  recorder.record("train", 3, 0, 0, {});
  recorder.flush();
  EXPECT_THAT(lines(), testing::StartsWith(step_line(1) + step_line(2) + "{\"kind\":\"train\",\"step\":3,"));
}

TEST_F(RecorderTest, AResumedRunDropsATornLastLine) {
  for (const std::string& torn :
       {std::string("{\"kind\":\"tra"), std::string("{"), step_line(2).substr(0, step_line(2).size() - 2)}) {
    write(step_line(1) + torn);
    Recorder recorder(folder_, 5);
    EXPECT_EQ(lines(), step_line(1)) << torn;
  }
}

TEST_F(RecorderTest, ALastLineThatLacksOnlyItsNewlineIsKept) {
  write(step_line(1) + step_line(2).substr(0, step_line(2).size() - 1));
  Recorder recorder(folder_, 5);
  EXPECT_EQ(lines(), step_line(1) + step_line(2));
}

TEST_F(RecorderTest, ResumesWithoutEarlierMetrics) {
  Recorder recorder(folder_, 7);
  EXPECT_EQ(lines(), "");
}

TEST_F(RecorderTest, AFreshRunStartsEmpty) {
  write(step_line(0) + step_line(1));
  Recorder recorder(folder_, 0);
  EXPECT_EQ(lines(), "");
}

TEST_F(RecorderTest, AFolderThatCannotBeMadeIsAFileError) {
  write("");
  EXPECT_THROW(Recorder(folder_ / "metrics.jsonl" / "below", 0), FileError);
}

}  // namespace
}  // namespace paceline
