#include "paceline/metrics/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "paceline/core/number_text.h"

namespace paceline {
namespace {

constexpr int64_t kRedrawNs = 100'000'000;
constexpr int kBarMin = 10, kBarMax = 30;
constexpr double kLongestSeconds = 1e9;  // no forecast: nobody waits for thirty years
constexpr const char* kEraseToEnd = "\x1b[K";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string format_loss(double loss) {
  if (!std::isfinite(loss)) return fmt::format("{}", loss);
  return std::abs(loss) < 10 ? fmt::format("{:.3f}", loss) : fmt::format("{:.4g}", loss);
}

std::string format_rate(double per_second) {
  return per_second < 100 ? fmt::format("{:.3g}", per_second)
                          : with_commas(static_cast<uint64_t>(std::llround(per_second)));
}

std::string format_duration(double seconds) {
  const int64_t s = std::llround(seconds);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string bar(double fraction, int cells, ProgressStyle style) {
  const char* full = style.unicode ? "━" : "=";
  const char* half = style.unicode ? "╸" : "-";
  const char* rest = style.unicode ? "─" : ".";
  const int halves = static_cast<int>(fraction * 2 * cells);
  std::string done, left;
  for (int cell = 0; cell < cells; ++cell) {
    if (2 * cell + 2 <= halves) {
      done += full;
    } else if (2 * cell + 1 == halves) {
      done += half;
    } else {
      left += rest;
    }
  }
  return style.colour ? fmt::format("\x1b[36m{}\x1b[0;2m{}\x1b[0m", done, left) : done + left;
}

// The parts of the line, the ones that stay longest first.
enum class Part { epoch, loss, percent, accuracy, left, bar, test, rate, step };

struct PartText {
  Part part;
  std::string text;  // ASCII, so that its size is its width; the bar's is made last, as wide as the room left
};

std::vector<PartText> parts_of(const ProgressState& state, double fraction) {
  std::vector<PartText> parts;
  const auto add = [&](Part part, std::string text) { parts.push_back({part, std::move(text)}); };
  const size_t digits = fmt::format("{}", state.steps).size();
  const int decimals = state.epochs < 1 ? 2 : 1;
  const double unit = std::pow(10, decimals);
  add(Part::epoch, fmt::format("epoch {:.{}f}/{:g}", state.epoch, decimals, std::round(state.epochs * unit) / unit));
  add(Part::bar, "");
  add(Part::percent, fmt::format("{:3} %", static_cast<int>(fraction * 100)));
  add(Part::step, state.steps > 0 ? fmt::format("step {:{}}/{}", state.step, digits, state.steps)
                                  : fmt::format("step {}", state.step));
  if (!(state.loss < 0)) add(Part::loss, "loss " + format_loss(state.loss));
  if (state.accuracy >= 0) add(Part::accuracy, fmt::format("acc {:4.1f} %", 100 * state.accuracy));
  if (state.test_accuracy >= 0) add(Part::test, fmt::format("test {:4.1f} %", 100 * state.test_accuracy));
  if (state.images_per_second > 0) add(Part::rate, format_rate(state.images_per_second) + " img/s");
  if (state.seconds_left >= 0 && state.seconds_left < kLongestSeconds) {
    add(Part::left, format_duration(state.seconds_left) + " left");
  }
  return parts;
}

int width_of(const std::vector<PartText>& parts) {
  int width = 0;
  for (const auto& [part, text] : parts) {
    width += (width > 0 ? 2 : 0) + (part == Part::bar ? kBarMin : static_cast<int>(text.size()));
  }
  return width;
}

// The first test comes later: its place is kept, so that the line does not change when it does.
void keep_place_for_test(std::vector<PartText>& parts) {
  const auto after = [](Part part) { return part == Part::rate || part == Part::left; };
  const auto is_test = [](const PartText& text) { return text.part == Part::test; };
  if (std::ranges::any_of(parts, is_test)) return;
  parts.insert(std::ranges::find_if(parts, after, &PartText::part), {Part::test, "test  0.0 %"});
}

std::string plain_text(const ProgressState& state) {
  std::string line;
  for (const auto& [part, text] : parts_of(state, 0)) {
    if (part == Part::bar || part == Part::percent) continue;  // the step says it
    line += (line.empty() ? "" : "  ") + text;
  }
  return line;
}

}  // namespace

ProgressStyle style_from_environment() {
  std::string locale = environment("LC_ALL");  // the first that is set decides, as in setlocale()
  if (locale.empty()) locale = environment("LC_CTYPE");
  if (locale.empty()) locale = environment("LANG");
  std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool capable = environment("TERM") != "dumb";
  const bool utf8 = locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return {.unicode = capable && utf8, .colour = capable && environment("NO_COLOR").empty()};
}

std::string progress_text(const ProgressState& state, int columns, ProgressStyle style) {
  const double done = state.steps > 0    ? static_cast<double>(state.step) / static_cast<double>(state.steps)
                      : state.epochs > 0 ? state.epoch / state.epochs
                                         : 0;
  const double fraction = std::clamp(done, 0.0, 1.0);
  std::vector<PartText> parts = parts_of(state, fraction);
  keep_place_for_test(parts);
  while (parts.size() > 1 && width_of(parts) > columns) {
    parts.erase(std::ranges::max_element(parts, {}, &PartText::part));
  }
  const int width = width_of(parts);
  const int bar_cells = std::min(kBarMin + columns - width, kBarMax);
  std::string line;
  for (const auto& [part, text] : parts) {
    if (part == Part::test && state.test_accuracy < 0) continue;
    if (!line.empty()) line += "  ";
    line += part == Part::bar ? bar(fraction, bar_cells, style) : text;
  }
  if (width > columns) line.resize(static_cast<size_t>(std::max(columns, 0)));  // only the epoch is left
  return line;
}

Progress::Progress(std::FILE* out, bool live, int64_t every_steps, int width)
    : out_(out),
      style_(style_from_environment()),
      live_(live && environment("TERM") != "dumb"),
      every_steps_(every_steps),
      width_(width) {}

void Progress::update(const ProgressState& state, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const bool first = !state_;
  state_ = state;
  shown_ = false;
  if (live_) {
    if (!first && now_ns - drawn_ns_ < kRedrawNs) return;
    drawn_ns_ = now_ns;
    draw();
  } else if (every_steps_ > 0) {
    if (first) lines_due_ = (state.step - 1) / every_steps_;  // a resumed run goes on with the same steps
    if (state.step / every_steps_ == lines_due_) return;
    lines_due_ = state.step / every_steps_;
    draw();
  }
}

void Progress::line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (!on_screen_) return print(fmt::format("{}\n", text));
  print(fmt::format("\r{}{}\n", kEraseToEnd, text));
  draw();
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (state_ && !shown_) draw();
  if (on_screen_) print("\n");
  on_screen_ = false;
  state_.reset();
}

void Progress::draw() {
  if (live_) {
    // One column stays free: some terminals wrap as soon as the last one is written.
    print(fmt::format("\r{}{}", progress_text(*state_, columns() - 1, style_), kEraseToEnd));
    on_screen_ = true;
  } else {
    // The last step may have had its line already; only a test tells more.
    const bool told =
        last_plain_ && last_plain_->step == state_->step && last_plain_->test_accuracy == state_->test_accuracy;
    if (!told) print(plain_text(*state_) + "\n");
    last_plain_ = state_;
  }
  shown_ = true;
}

void Progress::print(std::string_view text) {  // in one piece: a half-drawn line flickers
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

int Progress::columns() const {
  winsize size{};
  if (width_ > 0) return width_;
  return ::ioctl(::fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace paceline
