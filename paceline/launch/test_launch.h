// For the launcher's tests: the test program is also a launcher, an agent and a rank, so that real processes are
// tested. A test file includes this once and is run as `TEST`, or as `TEST launch KEY=VALUE... -- PROGRAM
// ARGUMENTS...`, `TEST launch --agent` and `TEST wait-for-news`.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/launch/child_process.h"
#include "paceline/launch/launch.h"
#include "paceline/launch/launch_agent.h"
#include "paceline/rendezvous/store_client.h"

namespace paceline {

inline int launch_from(const std::vector<std::string>& words) {
  LaunchOptions options;
  const auto number = [](auto& into) { return [&into](const std::string& text) { into = std::stoi(text); }; };
  const auto text = [](std::string& into) { return [&into](const std::string& text) { into = text; }; };
  const std::map<std::string, std::function<void(const std::string&)>> setters = {
      {"ranks", number(options.ranks)},
      {"hosts", text(options.hosts)},
      {"rsh", text(options.rsh)},
      {"remote_program", text(options.remote_program)},
      {"engine", text(options.engine)},
      {"address", text(options.address)},
      {"timeout_s", number(options.timeout_s)},
      {"prefixes", number(options.prefixes)},
      {"hello_ms", number(options.hello_ms)},
      {"grace_ms", number(options.grace_ms)},
      {"term_ms", number(options.term_ms)},
      {"stop_ms", number(options.stop_ms)},
      {"restarts", number(options.restarts)},
      {"restart_pause_ms", number(options.restart_pause_ms)}};
  size_t at = 0;
  for (; at < words.size() && words[at] != "--"; ++at) {
    const size_t equals = words[at].find('=');
    setters.at(words[at].substr(0, equals))(words[at].substr(equals + 1));
  }
  options.command.assign(words.begin() + static_cast<ptrdiff_t>(std::min(at + 1, words.size())), words.end());
  try {
    return launch(options);
  } catch (const Error& error) {
    fmt::print(stderr, "paceline: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}

// A rank that waits until the store tells it of a death.
inline int wait_for_news() {
  const Identity identity = find_identity(process_environment());
  StoreClient client({.host = identity.store_host,
                      .port = identity.store_port,
                      .rank = identity.rank,
                      .generation = identity.generation,
                      .watching = true},
                     *Secret::from_environment(process_environment()));
  fmt::print("watching\n");
  std::fflush(stdout);
  for (;;) {
    pollfd event = {client.descriptor(), POLLIN, 0};
    ::poll(&event, 1, -1);
    for (const StoreNews& news : client.news()) {
      if (news.kind != StoreNews::Kind::died) continue;
      fmt::print("rank {} {}\n", news.rank, news.text);
      return static_cast<int>(ExitCode::peer);
    }
  }
}

// A launcher that runs, and what it has written so far.
class Launched {
 public:
  explicit Launched(std::vector<std::string> words, ProcessOrder::Input input = ProcessOrder::Input::nothing)
      : child_({.arguments = with_program(std::move(words)), .input = input}) {}

  pid_t pid() const { return child_.pid(); }
  void signal(int signal) const { ::kill(child_.pid(), signal); }
  void write(std::string_view text) {
    EXPECT_EQ(::write(child_.input().number(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    child_.input() = Descriptor();
  }
  void close_output() { child_.output() = Descriptor(); }

  // Waits until standard output has `text` and the rest of its line.
  void wait_for(const std::string& text) {
    const auto has_line = [&] {
      const size_t found = output.find(text);
      return found != std::string::npos && output.find('\n', found) != std::string::npos;
    };
    while (!has_line()) ASSERT_TRUE(read_more()) << "it ended; " << output << errors;
  }
  // Waits for its end; the exit code, 128 + signal.
  int finish() {
    while (read_more()) {
    }
    pollfd ended = {child_.end_descriptor(), POLLIN, 0};
    ::poll(&ended, 1, -1);
    return child_.ending().value().exit_code();
  }
  std::vector<std::string> output_lines() const {
    std::vector<std::string> lines;
    std::istringstream stream(output);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  std::string output, errors;

 private:
  static std::vector<std::string> with_program(std::vector<std::string> words) {
    words.insert(words.begin(), {std::filesystem::read_symlink("/proc/self/exe"), "launch"});
    return words;
  }
  static void read_into(std::string& text, Descriptor& from) {
    char bytes[64 << 10];
    const ssize_t count = ::read(from.number(), bytes, sizeof bytes);
    if (count > 0) text.append(bytes, static_cast<size_t>(count));
    if (count == 0) from = Descriptor();
  }
  bool read_more() {
    pollfd events[] = {{child_.output().number(), POLLIN, 0}, {child_.errors().number(), POLLIN, 0}};
    if (events[0].fd < 0 && events[1].fd < 0) return false;
    ::poll(events, 2, -1);
    if (events[0].revents != 0) read_into(output, child_.output());
    if (events[1].revents != 0) read_into(errors, child_.errors());
    return true;
  }

  ChildProcess child_;
};

inline void expect_end_of(pid_t pid) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.number() < 0) return;  // it is no more
  pollfd ended = {process.number(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10'000), 1) << "process " << pid << " still runs";
}

// "[1] pid 1234" -> 1234
inline pid_t pid_in(const std::string& output, const std::string& label) {
  return std::stoi(output.substr(output.find(label) + label.size()));
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Whether any process shows `text` among its arguments.
inline bool is_in_some_command_line(const std::string& text) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string arguments((std::istreambuf_iterator<char>(file)), {});
    if (arguments.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace paceline

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"launch", "--agent"}) return paceline::run_launch_agent();
  if (words == std::vector<std::string>{"wait-for-news"}) return paceline::wait_for_news();
  if (!words.empty() && words[0] == "launch") return paceline::launch_from({words.begin() + 1, words.end()});
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
