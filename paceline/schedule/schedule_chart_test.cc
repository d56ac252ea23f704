#include "paceline/schedule/schedule_chart.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

SchedulePlan plan_of(double epochs, std::vector<double> changes, Schedule rate, BatchSchedule batch) {
  return {"plan", epochs, std::move(changes), std::move(rate), constant(0.9), std::move(batch)};
}

// The three curves, in the order of the panels.
std::vector<std::string> curves_of(const std::string& svg) {
  std::vector<std::string> curves;
  const std::string end = "\" fill=\"none\" stroke=\"#0072b2\"";
  for (size_t at = svg.find(end); at != std::string::npos; at = svg.find(end, at + 1)) {
    const size_t begin = svg.rfind("d=\"", at) + 3;
    curves.push_back(svg.substr(begin, at - begin));
  }
  return curves;
}

TEST(ScheduleChart, HasThreePanelsUnderItsTitle) {
  const std::string svg = schedule_chart_svg(plan_of(90, {30}, polynomial(40, 90, 2), 64));
  for (const char* text : {">plan<", ">Learning rate<", ">Momentum<", ">Samples in a global batch<", ">epoch<"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(curves_of(svg), SizeIs(3));
}

// A panel is 676 pixels wide from 64 on and 146 high from 36 on, below the title; its axis has ticks from 0 to 40.
TEST(ScheduleChart, RunsFromTheFirstRateToTheLast) {
  const auto curves = curves_of(schedule_chart_svg(plan_of(90, {}, polynomial(40, 90, 1), 64)));
  EXPECT_THAT(curves.at(0), StartsWith("M64.0 44.0L"));
  EXPECT_THAT(curves.at(0), EndsWith("L740.0 182.0"));
}

TEST(ScheduleChart, AJumpIsUprightAndMarked) {
  const BatchSchedule batch = BatchPhases{.first = 1000, .milestones = {30}, .sizes = {2000}};
  const std::string svg = schedule_chart_svg(plan_of(90, {30}, step(40, {30}, 0.5), batch));
  const auto curves = curves_of(svg);
  EXPECT_THAT(curves.at(0), HasSubstr("L289.3 44.0L289.3 182.0"));  // 64 + 676/3; the axis goes from 20 to 40
  EXPECT_THAT(curves.at(2), HasSubstr("L289.3 182.0L289.3 44.0"));
  EXPECT_THAT(svg, HasSubstr("M289.3 44.0V182.0\" stroke=\"#57606a\" stroke-dasharray"));
}

TEST(ScheduleChart, WhatStaysIsALevelLine) {
  const auto curves = curves_of(schedule_chart_svg(plan_of(0.5, {}, constant(0.1), 64)));
  for (const std::string& curve : curves) {
    const std::string first = curve.substr(curve.find(' ') + 1, curve.find('L') - curve.find(' ') - 1);
    EXPECT_EQ(curve.substr(curve.rfind(' ') + 1), first);
  }
}

TEST(ScheduleChart, ChecksItsPlan) {
  EXPECT_THROW(schedule_chart_svg(plan_of(0, {}, constant(1), 1)), InternalError);
  EXPECT_THROW(schedule_chart_svg(plan_of(9, {2, 1}, constant(1), 1)), InternalError);
}

}  // namespace
}  // namespace paceline
