#include "paceline/launch/launch_agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "paceline/launch/held_signals.h"
#include "paceline/launch/launch_protocol.h"
#include "paceline/launch/local_ranks.h"

namespace paceline {
namespace {

class LaunchAgent {
 public:
  int run() {
    outlet_.write(hello_line());
    loop_.watch(STDIN_FILENO, POLLIN, [this] { read_orders(); });
    loop_.watch(signals_.descriptor(), POLLIN, [this] {
      if (signals_.next()) kill();
    });
    while (!over()) {
      ranks_.pause(outlet_.full());
      loop_.turn();
    }
    return static_cast<int>(code_);
  }

 private:
  bool over() const { return ((started_ && !more_) || killed_) && ranks_.gone() && (outlet_.empty() || orphaned_); }

  void read_orders() {
    char bytes[64 << 10];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return;
    if (count > 0) return orders_.feed({bytes, static_cast<size_t>(count)});
    loop_.forget(STDIN_FILENO);
    orphaned_ = true;
    kill();
  }

  void follow(std::string_view line) try {
    const AgentOrder order = read_order(line);
    if (order.job) {
      start(*order.job);
    } else if (order.end) {
      more_ = false;
    } else if (order.signal == SIGKILL && !more_) {
      kill();
    } else {
      ranks_.signal(order.signal);
    }
  } catch (const Error& error) {
    outlet_.write(error_line(error));
    code_ = error.exit_code();
    started_ = true;
    more_ = false;
    ranks_.signal(SIGKILL);
  }

  void start(const JobOrder& job) {
    if (::chdir(job.folder.c_str()) != 0)
      throw UsageError(fmt::format("cannot work in the launcher's folder {}: {}", job.folder,
                                   std::generic_category().message(errno)));
    ranks_.start(job);
    started_ = true;
    more_ = job.more;
  }

  void kill() {
    killed_ = true;
    ranks_.signal(SIGKILL);
  }

  HeldSignals signals_;
  PollLoop loop_;
  Outlet outlet_{loop_, STDOUT_FILENO};
  LineSplitter orders_{[this](std::string_view line) { follow(line); }, {.longest_bytes = kLongestProtocolLine}};
  LocalRanks ranks_{loop_,
                    {.line = [this](int rank, Stream stream,
                                    std::string_view line) { outlet_.write(output_line(rank, stream, line)); },
                     .ended = [this](int rank, const Ending& ending) { outlet_.write(ended_line(rank, ending)); }},
                    ProcessOrder::Input::nothing};
  bool started_ = false;
  bool more_ = false;  // ranks may be started again: wait for orders
  bool killed_ = false;
  bool orphaned_ = false;  // the launcher is gone
  ExitCode code_ = ExitCode::success;
};

}  // namespace

int run_launch_agent() { return LaunchAgent().run(); }

}  // namespace paceline
