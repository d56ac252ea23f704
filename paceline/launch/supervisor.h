// Supervisor: processes of several roles that work together, as children of this one: starts them, passes on what they
// print, and starts those again that died, where that is wanted. One PollLoop; not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/launch/line_process.h"

namespace paceline {

class Supervisor {
 public:
  struct Events {
    std::function<void(const std::string& name, Stream stream, std::string_view line)> line;
    // It ended, and is not started again. Those that end with success, or while the others are being stopped, too.
    std::function<void(const std::string& name, const Ending& ending)> ended;
    std::function<void(const std::string& name, const Ending& ending)> restarted;  // it had failed like this
  };

  Supervisor(PollLoop& loop, Events events) : loop_(loop), events_(std::move(events)) {}
  ~Supervisor();  // whoever is left is killed

  struct Task {
    ProcessOrder order;
    // The order of a later start, after it has failed like this, where that differs from the first; nothing: it is not
    // started again.
    std::function<std::optional<ProcessOrder>(const Ending& ending)> again = {};
    int restarts = 0;                   // how often it may be started again after it failed
    std::vector<int> final_codes = {};  // exit codes that no new start would mend
  };
  // Throws UsageError: the program is missing, or cannot be started. REQUIRES: nobody has this name.
  void start(const std::string& name, Task task);

  bool running(const std::string& name) const;
  int running() const;  // how many
  void signal_all(int signal);
  void stop_all(int64_t grace_ms);  // SIGTERM, and after the grace SIGKILL; nobody is started again

 private:
  struct Child {
    Task task;
    std::unique_ptr<LineProcess> process;
    bool over = false;
  };
  void launch(const std::string& name, Child& child);
  void on_end(const std::string& name, const Ending& ending);

  PollLoop& loop_;
  Events events_;
  std::map<std::string, Child> children_;
  bool stopping_ = false;
  std::optional<PollLoop::TimerId> killing_;
};

}  // namespace paceline
