// ChildProcess: a program in a process group of its own, whose end can be polled for. It is told to end when the thread
// that started it ends, in whatever way. Starting one costs a fork and an exec, about a millisecond.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/rendezvous/descriptor.h"

namespace paceline {

// How a process ended.
struct Ending {
  int code = 0;
  int signal = 0;    // 0: it exited by itself
  std::string lost;  // not empty: its end was not seen, and this is why

  bool failed() const { return code != 0 || signal != 0 || !lost.empty(); }
  int exit_code() const;     // as a shell has it: 128 + signal. Of a lost one: that of a PeerError
  std::string text() const;  // "exited with code 3", "killed by signal 9 (Killed)"
};

struct ProcessOrder {
  enum class Input : uint8_t { nothing, inherited, pipe };

  std::vector<std::string> arguments;    // the program first; it is found as execvp does
  std::vector<std::string> environment;  // NAME=value, beside and over this process's own
  Input input = Input::nothing;
  bool inherits_output = false;  // it writes where this process does; there are no pipes to read
  int death_signal = SIGKILL;    // sent to it when this process is gone
};

// The file that execvp would start. Throws UsageError that names the program: missing, a folder, not executable.
std::string find_program(const std::string& name);

// The signals by which a process is asked to end. Who starts children blocks them and reads them from a descriptor
// (HeldSignals); a child has them unblocked.
sigset_t ending_signals();

class ChildProcess {
 public:
  // Throws UsageError: the program is missing, or cannot be started.
  explicit ChildProcess(const ProcessOrder& order);
  ~ChildProcess() { reap(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  int end_descriptor() const { return end_.number(); }  // readable when it has ended
  Descriptor& input() { return input_; }                // these never wait
  Descriptor& output() { return output_; }
  Descriptor& errors() { return errors_; }

  std::optional<Ending> ending() const;  // nothing while it runs; it stays until reaped, and so its group's number
  void signal(int signal) const;         // to its whole group
  void reap();  // kills what is left of its group and waits for it. Afterwards signal() does nothing

 private:
  pid_t pid_ = -1;
  Descriptor end_;
  Descriptor input_, output_, errors_;
};

}  // namespace paceline
