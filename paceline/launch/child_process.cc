#include "paceline/launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

extern char** environ;

namespace paceline {
namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

struct Pipe {
  Descriptor reading, writing;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw FileError(fmt::format("cannot make a pipe: {}; see 'ulimit -n'", error_text(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void never_wait(const Descriptor& descriptor) {
  CHECK_EQ(::fcntl(descriptor.number(), F_SETFL, ::fcntl(descriptor.number(), F_GETFL) | O_NONBLOCK), 0);
}

std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::map<std::string, std::string, std::less<>> entries;  // name -> NAME=value
  const auto add = [&](std::string_view entry) { entries[std::string(entry.substr(0, entry.find('=')))] = entry; };
  for (char** entry = environ; *entry != nullptr; ++entry) add(*entry);
  for (const std::string& entry : additions) add(entry);
  std::vector<std::string> merged;
  for (auto& [name, entry] : entries) merged.push_back(std::move(entry));
  return merged;
}

std::vector<char*> c_strings(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// All that the child needs, made before the fork: after it nothing may be allocated.
struct Prepared {
  const char* file;
  char* const* arguments;
  char* const* shell_arguments;
  char* const* environment;
  std::array<int, 3> standard;  // descriptors for input, output, errors; -1: as it is
  int failure;                  // where to write errno when the program cannot be started
  int death_signal;
  pid_t parent;
  sigset_t unblocked;
};

// Runs in the child: async-signal-safe calls only.
[[noreturn]] void become(const Prepared& prepared) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, prepared.death_signal);
  if (::getppid() != prepared.parent) ::_exit(127);  // it was gone before that was set
  for (int standard = 0; standard < 3; ++standard)
    if (prepared.standard[standard] >= 0) ::dup2(prepared.standard[standard], standard);
  ::sigprocmask(SIG_UNBLOCK, &prepared.unblocked, nullptr);
  ::execve(prepared.file, prepared.arguments, prepared.environment);
  // A script without "#!": what execvp does.
  if (errno == ENOEXEC) ::execve("/bin/sh", prepared.shell_arguments, prepared.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(prepared.failure, &error, sizeof error);
  ::_exit(127);
}

bool is_file(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// Where execvp would look, in its order.
std::vector<std::string> candidates(const std::string& name) {
  const char* set = std::getenv("PATH");
  std::istringstream path(set != nullptr ? set : "/bin:/usr/bin");
  std::vector<std::string> files;
  for (std::string folder; !name.empty() && std::getline(path, folder, ':');)
    files.push_back(fmt::format("{}/{}", folder.empty() ? "." : folder, name));
  return files;
}

}  // namespace

int Ending::exit_code() const {
  if (!lost.empty()) return static_cast<int>(ExitCode::peer);
  return signal != 0 ? 128 + signal : code;
}

std::string Ending::text() const {
  if (!lost.empty()) return "was lost: " + lost;
  if (signal == 0) return fmt::format("exited with code {}", code);
  const char* name = ::sigdescr_np(signal);
  return fmt::format("killed by signal {}{}", signal, name == nullptr ? "" : fmt::format(" ({})", name));
}

std::string find_program(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos;
  std::string unusable;
  for (const std::string& file : is_path ? std::vector{name} : candidates(name)) {
    if (is_file(file) && ::access(file.c_str(), X_OK) == 0) return file;
    if (is_file(file)) unusable = file;
  }
  if (!unusable.empty()) throw UsageError(fmt::format("cannot run '{}': {} is not executable", name, unusable));
  if (is_path) throw UsageError(fmt::format("cannot run '{}': there is no such program", name));
  throw UsageError(fmt::format("cannot run '{0}': no folder of PATH has it{1}", name,
                               is_file("./" + name) ? fmt::format(" (the one in this folder is './{}')", name) : ""));
}

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&signals, signal);
  return signals;
}

ChildProcess::ChildProcess(const ProcessOrder& order) {
  CHECK_TRUE(!order.arguments.empty(), "a process without a program");
  const std::string file = find_program(order.arguments.front());
  std::vector<std::string> arguments = order.arguments;
  std::vector<std::string> shell_arguments = {"/bin/sh", file};
  shell_arguments.insert(shell_arguments.end(), arguments.begin() + 1, arguments.end());
  std::vector<std::string> environment = merged_environment(order.environment);
  const std::vector<char*> c_arguments = c_strings(arguments);
  const std::vector<char*> c_shell_arguments = c_strings(shell_arguments);
  const std::vector<char*> c_environment = c_strings(environment);

  Pipe input, output, errors, failure = make_pipe();
  if (!order.inherits_output) {
    output = make_pipe();
    errors = make_pipe();
  }
  if (order.input == ProcessOrder::Input::pipe) input = make_pipe();
  if (order.input == ProcessOrder::Input::nothing)
    input.reading = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Prepared prepared = {.file = file.c_str(),
                             .arguments = c_arguments.data(),
                             .shell_arguments = c_shell_arguments.data(),
                             .environment = c_environment.data(),
                             .standard = {input.reading.number(), output.writing.number(), errors.writing.number()},
                             .failure = failure.writing.number(),
                             .death_signal = order.death_signal,
                             .parent = ::getpid(),
                             .unblocked = ending_signals()};
  pid_ = ::fork();
  if (pid_ == 0) become(prepared);
  if (pid_ < 0) throw FileError(fmt::format("cannot start a process: {}; see 'ulimit -u'", error_text(errno)));

  failure.writing = Descriptor();
  int error = 0;
  ssize_t told;
  do told = ::read(failure.reading.number(), &error, sizeof error);  // ends when the program has been started
  while (told < 0 && errno == EINTR);
  if (told != 0) {
    reap();
    throw UsageError(fmt::format("cannot run '{}': {}", order.arguments.front(), error_text(error)));
  }
  end_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  CHECK_GE(end_.number(), 0);
  for (const Descriptor* ours : {&output.reading, &errors.reading})
    if (ours->number() >= 0) never_wait(*ours);
  if (input.writing.number() >= 0) never_wait(input.writing);
  input_ = std::move(input.writing);
  output_ = std::move(output.reading);
  errors_ = std::move(errors.reading);
}

std::optional<Ending> ChildProcess::ending() const {
  siginfo_t information = {};
  if (pid_ < 0 || ::waitid(P_PID, pid_, &information, WEXITED | WNOWAIT | WNOHANG) != 0) return std::nullopt;
  if (information.si_pid == 0) return std::nullopt;
  if (information.si_code == CLD_EXITED) return Ending{.code = information.si_status};
  return Ending{.signal = information.si_status};
}

void ChildProcess::signal(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

void ChildProcess::reap() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace paceline
