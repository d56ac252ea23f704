// Where a run stands, for people: on a terminal a live line that redraws itself, elsewhere a plain line now and then.
#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

struct ProgressState {
  double epoch = 0, epochs = 0;
  int64_t step = 0, steps = 0;  // steps 0: how many there will be is not known; the epochs say how far the run is
  double loss = 0;              // < 0: unknown
  double accuracy = -1;         // of training, running, a fraction; < 0: unknown
  double test_accuracy = -1;    // a fraction; < 0: none yet
  double images_per_second = 0;
  double seconds_left = -1;  // < 0: unknown
};

struct ProgressStyle {
  bool unicode = false;
  bool colour = false;
};

// What the terminal can show: Unicode if the locale is UTF-8, colour unless NO_COLOR is set; neither if TERM is dumb.
ProgressStyle style_from_environment();

// The live line, at most `columns` wide: the least important parts are left out. No control characters but for colour.
std::string progress_text(const ProgressState& state, int columns, ProgressStyle style);

// May be called from any thread.
class Progress {
 public:
  // live: redraw in place, at most 10 times a second (a dumb terminal cannot: it gets plain lines).
  // every_steps: of the plain lines; 0: only the last state.
  // width: in columns; 0 asks the terminal each time, and takes 80 if it does not say.
  Progress(std::FILE* out, bool live, int64_t every_steps, int width = 0);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressState& state, int64_t now_ns);  // cheap when nothing is to be drawn
  void line(std::string_view text);                         // above the live line; what Log's console is set to
  void finish();                                            // leaves the last state on screen, the cursor on a new line

 private:
  void draw();
  void print(std::string_view text);
  int columns() const;

  std::mutex mutex_;
  std::FILE* out_;
  ProgressStyle style_;
  bool live_;
  int64_t every_steps_;
  int width_;

  std::optional<ProgressState> state_;  // nothing: before the first update and after finish()
  bool shown_ = false;                  // state_ has been drawn as it is
  bool on_screen_ = false;              // the cursor stands at the end of a live line
  int64_t drawn_ns_ = 0;
  std::optional<ProgressState> last_plain_;  // line
  int64_t lines_due_ = 0;                    // step / every_steps at the last plain line
};

}  // namespace paceline
