#include "paceline/metrics/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

namespace paceline {
namespace {

// Okabe and Ito's colours, which people who see few colours can tell apart too; dark enough for a light background.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9"};
constexpr const char* kInk = "#24292f";
constexpr const char* kFaintInk = "#57606a";
constexpr const char* kGrid = "#e4e7eb";

constexpr int kLeft = 64, kRight = 20, kBottom = 48;
constexpr int kTitleHeight = 36, kLegendRowHeight = 20;
constexpr double kLetterWidth = 6.6;        // of a 12 px letter, about
constexpr size_t kMostMarkers = 30;         // a longer series is a line without dots
constexpr double kLargestDrawable = 1e100;  // differences of drawable numbers are finite

using Point = std::pair<double, double>;

bool drawable(double value) { return std::abs(value) < kLargestDrawable; }  // false for NaN
bool drawable(const Point& point) { return drawable(point.first) && drawable(point.second); }

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // XML has no control characters
    }
  }
  return safe;
}

// An axis: its ends, and ticks at multiples of 1, 2 or 5 times a power of ten.
struct Axis {
  double low = 0, high = 1, tick = 0.2;

  double fraction(double value) const { return (value - low) / (high - low); }

  std::vector<double> ticks() const {
    std::vector<double> values;
    const double tolerance = 1e-6;  // of a tick: 0.3 / 0.1 is not 3
    const double first = std::ceil(low / tick - tolerance), last = std::floor(high / tick + tolerance);
    const int count = static_cast<int>(last - first) + 1;
    for (int k = 0; k < count; ++k) values.push_back((first + k) * tick + 0.0);  // + 0: never "-0"
    return values;
  }

  std::string label(double value) const {
    if (std::max(std::abs(low), std::abs(high)) >= 1e6 || tick < 1e-4) return fmt::format("{:g}", value);
    const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(tick) - 1e-9)));
    return fmt::format("{:.{}f}", value, decimals);
  }
};

double nice_tick(double span, int most) {
  const double raw = span / most;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

template <class Coordinate>
Axis axis_over(const Chart& chart, Coordinate coordinate, int most_ticks, bool to_ticks, bool from_zero = false) {
  std::optional<double> low, high;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (!drawable(point)) continue;
      const double value = coordinate(point);
      low = std::min(low.value_or(value), value);
      high = std::max(high.value_or(value), value);
    }
  }
  Axis axis;
  if (low) axis = {*low, *high};
  if (axis.low > 0 && (from_zero || axis.low < 0.1 * axis.high)) axis.low = 0;  // so near zero, it begins there
  const double magnitude = std::max(std::abs(axis.low), std::abs(axis.high));
  if (axis.high - axis.low <= 1e-9 * magnitude || axis.high == axis.low) {  // one value: it lies in the middle
    const double margin = magnitude > 0 ? 0.1 * magnitude : 1;
    axis.low -= margin;
    axis.high += margin;
  }
  axis.tick = nice_tick(axis.high - axis.low, most_ticks);
  if (to_ticks) {
    axis.low = std::floor(axis.low / axis.tick + 1e-6) * axis.tick;
    axis.high = std::ceil(axis.high / axis.tick - 1e-6) * axis.tick;
  }
  return axis;
}

// Runs of neighbouring drawable points, in pixels.
std::vector<std::vector<Point>> runs_of(const Series& series, const auto& to_pixels) {
  std::vector<std::vector<Point>> runs;
  bool gap = true;
  for (const Point& point : series.points) {
    if (drawable(point)) {
      if (gap) runs.emplace_back();
      runs.back().push_back(to_pixels(point));
    }
    gap = !drawable(point);
  }
  return runs;
}

// The first, lowest, highest and last point of each column of pixels: looks the same, and is small.
std::vector<Point> thinned(const std::vector<Point>& run) {
  std::vector<Point> kept;
  for (size_t begin = 0, end; begin < run.size(); begin = end) {
    for (end = begin + 1; end < run.size() && std::floor(run[end].first) == std::floor(run[begin].first);) ++end;
    const auto [lowest, highest] = std::minmax_element(
        run.begin() + begin, run.begin() + end, [](const Point& a, const Point& b) { return a.second < b.second; });
    std::array<size_t, 4> picks = {begin, static_cast<size_t>(lowest - run.begin()),
                                   static_cast<size_t>(highest - run.begin()), end - 1};
    std::ranges::sort(picks);
    for (size_t i = 0; i < picks.size(); ++i) {
      if (i == 0 || picks[i] != picks[i - 1]) kept.push_back(run[picks[i]]);
    }
  }
  return kept;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

std::string draw_series(const Series& series, const char* colour, const auto& to_pixels) {
  std::string path, dots;
  const bool markers = series.points.size() <= kMostMarkers;
  for (const auto& run : runs_of(series, to_pixels)) {
    const std::vector<Point> points = thinned(run);
    for (size_t i = 0; i < points.size(); ++i) {
      const auto [x, y] = points[i];
      if (points.size() > 1) path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x, y);
      if (markers || points.size() == 1) dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.8\"/>", x, y);
    }
  }
  std::string svg = fmt::format("<g fill=\"{}\">{}</g>\n", colour, dots);
  if (!path.empty()) {
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"/>\n",
                       path, colour, markers ? 1.8 : 1.2);  // many points: the noise is not to cover the other lines
  }
  return svg;
}

// Draws the legend below the title, in as many rows as it needs; returns where it ends.
double draw_legend(const Chart& chart, int width, std::string& svg) {
  double x = kLeft, y = kTitleHeight;
  const auto unlabelled = [](const Series& series) { return series.label.empty(); };
  if (!chart.series.empty() && std::ranges::all_of(chart.series, unlabelled)) return y;
  for (size_t k = 0; k < chart.series.size(); ++k) {
    const std::string& label = chart.series[k].label;
    if (label.empty()) continue;
    const double item_width = 24 + kLetterWidth * static_cast<double>(label.size()) + 16;
    if (x > kLeft && x + item_width > width - kRight) {
      x = kLeft;
      y += kLegendRowHeight;
    }
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}h18\" stroke=\"{}\" stroke-width=\"3\"/>\n", x, y + 6,
                       kColours[k % kColours.size()]);
    svg += text_at(x + 24, y + 10, "start", label);
    x += item_width;
  }
  return y + kLegendRowHeight;
}

// A dashed line at each mark that lies inside, and its x above it where that does not run into the one before.
std::string draw_marks(const Chart& chart, const Axis& x_axis, double top, double bottom, const auto& to_pixels) {
  std::string lines, labels;
  double free_from = 0;
  for (const double mark : chart.marks) {
    if (!drawable(mark) || mark <= x_axis.low || mark >= x_axis.high) continue;
    const double x = to_pixels({mark, 0}).first;
    lines += fmt::format("M{:.1f} {:.1f}V{:.1f}", x, top, bottom);
    const std::string label = fmt::format("{:.6g}", mark);
    const double half_width = kLetterWidth * static_cast<double>(label.size()) / 2 + 2;
    if (x - half_width < free_from) continue;
    labels += text_at(x, top - 4, "middle", label, fmt::format(" font-size=\"11\" fill=\"{}\"", kFaintInk).c_str());
    free_from = x + half_width;
  }
  if (lines.empty()) return "";
  return fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-dasharray=\"4 3\"/>\n", lines, kFaintInk) + labels;
}

std::string draw_chart(const Chart& chart, ChartSize size) {
  std::string svg = text_at(kLeft, 23, "start", chart.title, " font-size=\"15\" font-weight=\"600\"");
  const double top = draw_legend(chart, size.width, svg) + 8;
  const double right = size.width - kRight, bottom = size.height - kBottom;
  const Axis x_axis = axis_over(
      chart, [](const Point& p) { return p.first; }, std::max(2, size.width / 70), false, chart.x_from_zero);
  const Axis y_axis = axis_over(
      chart, [](const Point& p) { return p.second; }, std::max(2, size.height / 55), true);
  const auto to_pixels = [&](const Point& p) {
    return Point{kLeft + x_axis.fraction(p.first) * (right - kLeft),
                 bottom - y_axis.fraction(p.second) * (bottom - top)};
  };

  std::string grid;
  for (const double tick : y_axis.ticks()) {
    const double y = to_pixels({x_axis.low, tick}).second;
    grid += fmt::format("M{} {:.1f}H{:.1f}", kLeft, y, right);
    svg += text_at(kLeft - 8, y + 4, "end", y_axis.label(tick));
  }
  for (const double tick : x_axis.ticks()) {
    const double x = to_pixels({tick, y_axis.low}).first;
    grid += fmt::format("M{:.1f} {:.1f}V{:.1f}", x, top, bottom);
    svg += text_at(x, bottom + 18, "middle", x_axis.label(tick));
  }
  svg += fmt::format("<path d=\"{}\" stroke=\"{}\"/>\n", grid, kGrid);
  svg += fmt::format("<path d=\"M{} {:.1f}V{:.1f}H{:.1f}\" fill=\"none\" stroke=\"{}\"/>\n", kLeft, top, bottom, right,
                     kFaintInk);
  svg += draw_marks(chart, x_axis, top, bottom, to_pixels);
  svg += text_at((kLeft + right) / 2, size.height - 10, "middle", chart.x_label);
  const std::string turned = fmt::format(" transform=\"rotate(-90 16 {:.1f})\"", (top + bottom) / 2);
  svg += text_at(16, (top + bottom) / 2, "middle", chart.y_label, turned.c_str());

  bool empty = true;
  for (size_t k = 0; k < chart.series.size(); ++k) {
    svg += draw_series(chart.series[k], kColours[k % kColours.size()], to_pixels);
    if (std::ranges::any_of(chart.series[k].points, [](const Point& p) { return drawable(p); })) empty = false;
  }
  if (empty) svg += text_at((kLeft + right) / 2, (top + bottom) / 2, "middle", "no data yet");
  return svg;
}

std::string begin_svg(int width, int height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"system-ui, -apple-system, 'Segoe UI', sans-serif\" font-size=\"12\" fill=\"{2}\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      width, height, kInk);
}

}  // namespace

std::string line_chart_svg(const std::vector<Chart>& charts, ChartSize size, const std::string& title) {
  const int top = title.empty() ? 0 : kTitleHeight;
  std::string svg = begin_svg(size.width * std::max<int>(1, static_cast<int>(charts.size())), top + size.height);
  if (!title.empty()) svg += text_at(kLeft, 25, "start", title, " font-size=\"17\" font-weight=\"600\"");
  for (size_t i = 0; i < charts.size(); ++i) {
    svg +=
        fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", size.width * i, top, draw_chart(charts[i], size));
  }
  return svg + "</svg>\n";
}

std::string stacked_chart_svg(const std::string& title, const std::vector<Chart>& charts, ChartSize size) {
  std::string svg = begin_svg(size.width, kTitleHeight + size.height * static_cast<int>(charts.size()));
  svg += text_at(kLeft, 25, "start", title, " font-size=\"17\" font-weight=\"600\"");
  for (size_t i = 0; i < charts.size(); ++i) {
    svg += fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", kTitleHeight + size.height * i,
                       draw_chart(charts[i], size));
  }
  return svg + "</svg>\n";
}

}  // namespace paceline
