#include "paceline/metrics/line_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kNaN = NAN;

Chart chart_of(std::vector<std::pair<double, double>> points) {
  return {"title", "x", "y", {{"series", std::move(points)}}};
}
std::string svg_of(std::vector<std::pair<double, double>> points) {
  return line_chart_svg({chart_of(std::move(points))});
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// The data of the series' line: the last path with a line join.
std::string path_of(const std::string& svg) {
  const size_t end = svg.find("\" fill=\"none\" stroke=\"#0072b2\"");
  if (end == std::string::npos) return "";
  const size_t begin = svg.rfind("d=\"", end) + 3;
  return svg.substr(begin, end - begin);
}

bool is_sound(const std::string& svg) {  // every group is closed, and no number is one that SVG does not know
  return svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && occurrences(svg, "<g ") == occurrences(svg, "</g>") &&
         occurrences(svg, "<text ") == occurrences(svg, "</text>") && svg.find("\"nan") == std::string::npos &&
         svg.find(" nan") == std::string::npos && svg.find("inf") == std::string::npos;
}

TEST(LineChart, DrawsEachSeriesInItsColourWithALegend) {
  const std::string svg =
      line_chart_svg({{"Loss", "epoch", "loss", {{"train", {{0, 1}, {1, 2}}}, {"test", {{0, 2}, {1, 3}}}}}});
  EXPECT_TRUE(is_sound(svg));
  for (const char* text : {">Loss<", ">epoch<", ">loss<", ">train<", ">test<"}) EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, testing::AllOf(HasSubstr("stroke=\"#0072b2\""), HasSubstr("stroke=\"#d55e00\"")));
}

TEST(LineChart, RunsFromCornerToCorner) { EXPECT_EQ(path_of(svg_of({{0, 0}, {10, 1}})), "M64.0 292.0L500.0 64.0"); }

TEST(LineChart, TicksAreRoundNumbers) {
  const std::string svg = svg_of({{0, 0.31}, {10, 2.29}});
  for (const char* tick : {">0.0<", ">0.5<", ">1.0<", ">1.5<", ">2.0<", ">2.5<"}) EXPECT_THAT(svg, HasSubstr(tick));
  for (const char* tick : {">0<", ">2<", ">4<", ">6<", ">8<", ">10<"}) EXPECT_THAT(svg, HasSubstr(tick));
  EXPECT_THAT(svg_of({{0, 0}, {1, 5e8}}), HasSubstr(">1e+08<"));
  EXPECT_THAT(svg_of({{0, 0}, {1, 5e-6}}), HasSubstr(">1e-06<"));
}

TEST(LineChart, StandsChartsSideBySide) {
  const std::string svg = line_chart_svg({chart_of({}), chart_of({}), chart_of({})}, {.width = 300, .height = 200});
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 900 200\""));
  EXPECT_THAT(
      svg, testing::AllOf(HasSubstr("translate(0 0)"), HasSubstr("translate(300 0)"), HasSubstr("translate(600 0)")));
}

TEST(LineChart, StacksChartsUnderATitle) {
  const std::string svg =
      stacked_chart_svg("Plan <1>", {chart_of({{0, 1}}), chart_of({})}, {.width = 300, .height = 200});
  EXPECT_TRUE(is_sound(svg));
  EXPECT_THAT(svg, testing::AllOf(HasSubstr("viewBox=\"0 0 300 436\""), HasSubstr(">Plan &lt;1&gt;<"),
                                  HasSubstr("translate(0 36)"), HasSubstr("translate(0 236)")));
  EXPECT_TRUE(is_sound(stacked_chart_svg("", {})));
}

TEST(LineChart, MarksEachXInsideWithADashedLine) {
  Chart chart = chart_of({{0, 0}, {10, 1}});
  chart.marks = {-1, 0, 2.5, 2.6, 10, kNaN, 11};
  const std::string svg = line_chart_svg({chart});
  EXPECT_TRUE(is_sound(svg));
  EXPECT_THAT(svg, HasSubstr("d=\"M173.0 64.0V292.0M177.4 64.0V292.0\" stroke=\"#57606a\" stroke-dasharray"));
  EXPECT_THAT(svg, HasSubstr(">2.5<"));
  EXPECT_THAT(svg, Not(HasSubstr(">2.6<")));  // its number would cover the other one's
}

TEST(LineChart, ASeriesWithoutALabelNeedsNoLegend) {
  const std::string svg = line_chart_svg({{"t", "x", "y", {{"", {{0, 0}, {10, 1}}}}}});
  EXPECT_EQ(path_of(svg), "M64.0 292.0L500.0 44.0");  // 20 pixels higher than with one
  EXPECT_EQ(svg.find("h18"), std::string::npos);
}

TEST(LineChart, SaysWhenThereIsNothingToDraw) {
  for (const auto& points : {std::vector<std::pair<double, double>>{}, {{0, kNaN}}, {{INFINITY, 1}}}) {
    const std::string svg = svg_of(points);
    EXPECT_TRUE(is_sound(svg));
    EXPECT_THAT(svg, HasSubstr("no data yet"));
    EXPECT_EQ(path_of(svg), "");
  }
  EXPECT_TRUE(is_sound(line_chart_svg({})));
  EXPECT_TRUE(is_sound(line_chart_svg({Chart{}})));
}

TEST(LineChart, ASinglePointIsADotInTheMiddle) {
  const std::string svg = svg_of({{3, 7}});
  EXPECT_TRUE(is_sound(svg));
  EXPECT_EQ(path_of(svg), "");
  EXPECT_THAT(svg, HasSubstr("<circle cx=\"282.0\""));
}

TEST(LineChart, AConstantSeriesIsALevelLine) {
  for (const double level : {0.0, 5.0, -1e-30, 1e30}) {
    const std::string svg = svg_of({{0, level}, {1, level}});
    EXPECT_TRUE(is_sound(svg)) << level;
    const std::string path = path_of(svg);
    EXPECT_EQ(path.substr(path.find(' ') + 1, path.find('L') - path.find(' ') - 1), path.substr(path.rfind(' ') + 1))
        << path;
  }
}

TEST(LineChart, APointThatIsNotFiniteLeavesAGap) {
  const std::string svg = svg_of({{0, 0}, {1, 1}, {2, kNaN}, {3, 1}, {4, INFINITY}, {5, 0}, {6, 1}});
  EXPECT_TRUE(is_sound(svg));
  EXPECT_EQ(occurrences(path_of(svg), "M"), 2);  // 0-1 and 5-6
  EXPECT_EQ(occurrences(svg, "<circle "), 5);    // 3 stands alone: its dot shows it
}

TEST(LineChart, TextIsEscaped) {
  const std::string svg = line_chart_svg({{"<script>\"a\" & b\x01", "", "", {{"</svg>", {}}}}});
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&quot;a&quot; &amp; b <"));
  EXPECT_THAT(svg, HasSubstr("&lt;/svg&gt;"));
  EXPECT_TRUE(is_sound(svg));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(LineChart, ManyPointsAreThinnedToTheirExtremes) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100'000; ++i) points.emplace_back(i, i == 54'321 ? 10 : std::sin(i));
  const std::string svg = svg_of(points);
  EXPECT_LT(svg.size(), 40'000u);
  EXPECT_THAT(path_of(svg), HasSubstr(" 64.0L"));  // the one high point is there, at the top
  EXPECT_EQ(occurrences(svg, "<circle "), 0);
}

TEST(LineChart, SurvivesExtremeNumbers) {
  EXPECT_TRUE(is_sound(svg_of({{0, -1e300}, {1, 1e300}})));
  EXPECT_TRUE(is_sound(svg_of({{0, -9e99}, {1, 9e99}})));
  EXPECT_TRUE(is_sound(svg_of({{0, 1}, {1, std::nextafter(1, 2)}})));
  EXPECT_TRUE(is_sound(svg_of({{0, 0}, {1, 5e-324}})));
  EXPECT_TRUE(is_sound(line_chart_svg({chart_of({{0, 1}, {1, 2}})}, {.width = 10, .height = 10})));
}

TEST(LineChart, ALongLegendTakesSeveralRows) {
  Chart chart{"t", "x", "y", {}};
  for (int i = 0; i < 12; ++i) chart.series.push_back({"a rather long label", {{0, 0}, {1, 1}}});
  const std::string svg = line_chart_svg({chart});
  EXPECT_TRUE(is_sound(svg));
  EXPECT_THAT(svg, testing::AllOf(HasSubstr("y=\"46.0\""), HasSubstr("y=\"66.0\"")));
}

}  // namespace
}  // namespace paceline
