// LineProcess: a child process whose output arrives line by line in a PollLoop.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "paceline/launch/child_process.h"
#include "paceline/launch/line_splitter.h"
#include "paceline/launch/outlet.h"
#include "paceline/launch/poll_loop.h"

namespace paceline {

enum class Stream : uint8_t { output, errors };

class LineProcess {
 public:
  struct Events {
    std::function<void(Stream stream, std::string_view line)> line;
    // Comes once, after what the process wrote. Lines of processes that it left behind may still follow.
    std::function<void(const Ending& ending)> ended;
  };
  struct Options {
    LineSplitter::Options lines = {};
    int64_t linger_ms = 500;  // that processes which it left behind may still write; then they are killed
  };

  // Throws UsageError: the program is missing, or cannot be started. The loop must outlive it.
  LineProcess(PollLoop& loop, const ProcessOrder& order, Events events, Options options);
  LineProcess(PollLoop& loop, const ProcessOrder& order, Events events)
      : LineProcess(loop, order, std::move(events), Options{}) {}
  ~LineProcess();  // whoever is left of its group is killed

  bool gone() const { return gone_; }  // ended, and nothing of it is left
  void signal(int signal) const { child_.signal(signal); }
  void pause(bool paused);  // reads no more lines for now, so that it must wait with writing

  void write(std::string_view bytes);  // to its input, of Input::pipe; dropped when it has ended

 private:
  struct Source {
    Descriptor* descriptor;
    LineSplitter lines;
    bool open() const { return descriptor->number() >= 0; }
  };
  bool read_some(Source& source);  // false: nothing was there
  void drain(Source& source);
  void close(Source& source);
  void on_end();
  void finish_if_silent();
  void finish();

  PollLoop& loop_;
  Events events_;
  Options options_;
  ChildProcess child_;
  std::optional<Outlet> input_;
  std::array<Source, 2> sources_;
  PollLoop::TimerId linger_ = 0;
  bool ended_ = false;
  bool gone_ = false;
};

}  // namespace paceline
