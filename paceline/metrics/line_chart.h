// Line charts as SVG: self-contained, no scripts, no fonts from elsewhere.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline {

struct Series {
  std::string label;
  std::vector<std::pair<double, double>> points;  // x, y in the order of x; one that is not finite leaves a gap
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;  // series k has the same colour in every chart; one without a label is not in the legend
  std::vector<double> marks = {};  // x that dashed lines mark, in increasing order
  bool x_from_zero = false;        // even if the first point lies far from it
};

struct ChartSize {
  int width = 520, height = 340;  // of each chart
};

// The charts side by side, under a common title if there is one. Many points per pixel are thinned to their extremes.
std::string line_chart_svg(const std::vector<Chart>& charts, ChartSize size = {}, const std::string& title = "");

// The charts one below the other under a common title, for curves over the same x.
std::string stacked_chart_svg(const std::string& title, const std::vector<Chart>& charts,
                              ChartSize size = {.width = 760, .height = 230});

}  // namespace paceline
