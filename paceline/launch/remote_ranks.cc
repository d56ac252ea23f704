#include "paceline/launch/remote_ranks.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <filesystem>
#include <memory>
#include <sstream>

#include "paceline/core/shell_quoted.h"
#include "paceline/core/version.h"
#include "paceline/launch/launch_protocol.h"

namespace paceline {
namespace {

constexpr size_t kLastWords = 10;
constexpr int64_t kKilledMs = 400;  // for an agent to report that its ranks are dead

std::vector<std::string> split_at_spaces(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string without_user(const std::string& host) { return host.substr(host.find('@') + 1); }

}  // namespace

std::vector<std::string> agent_command(const RemoteShell& shell, const std::string& host) {
  std::vector<std::string> words = split_at_spaces(shell.command);
  if (words.empty()) throw UsageError("--rsh is empty: it must name the command that runs programs on other hosts");
  const bool has_shell_there = std::filesystem::path(words.front()).filename().string().ends_with("sh");
  words.push_back(host);
  words.push_back(has_shell_there ? shell_quoted(shell.program) : shell.program);
  words.insert(words.end(), {"launch", "--agent"});
  return words;
}

RemoteRanks::RemoteRanks(PollLoop& loop, RankEvents events, std::string host, const RemoteShell& shell)
    : loop_(loop),
      events_(std::move(events)),
      host_(std::move(host)),
      command_(agent_command(shell, host_)),
      process_(loop,
               // SIGTERM: an agent that is this very process (ip netns exec) can still kill its ranks' groups.
               {.arguments = command_, .input = ProcessOrder::Input::pipe, .death_signal = SIGTERM},
               {.line = [this](Stream stream, std::string_view line) { on_line(stream, line); },
                .ended = [this](const Ending& ending) { on_process_end(ending); }},
               {.lines = {.longest_bytes = kLongestProtocolLine}}) {
  timer_ = loop_.after(shell.hello_ms, [this, ms = shell.hello_ms] {
    fail(fmt::format("was silent for {:g} s", static_cast<double>(ms) / 1000));
  });
}

RemoteRanks::~RemoteRanks() { loop_.cancel(timer_); }

void RemoteRanks::start(const JobOrder& job) {
  started_ = true;
  more_ = job.more;
  for (const RankOrder& order : job.ranks) running_.insert(order.rank);
  process_.write(job_line(job));
}

void RemoteRanks::kill_ranks() {
  if (!more_) return signal(SIGKILL);
  process_.write(signal_line(SIGKILL));
}

void RemoteRanks::release() {
  if (std::exchange(more_, false)) process_.write(end_line());
}

void RemoteRanks::signal(int signal) {
  if (ready_ && !given_up_) process_.write(signal_line(signal));
  if (signal != SIGKILL || given_up_) return;
  given_up_ = true;
  loop_.cancel(timer_);
  timer_ = loop_.after(ready_ ? kKilledMs : 0, [this] { process_.signal(SIGKILL); });
}

void RemoteRanks::on_line(Stream stream, std::string_view line) {
  const auto report = stream == Stream::output ? read_report(line) : std::nullopt;
  if (!report) return on_note(line);
  switch (report->kind) {
    case AgentReport::Kind::hello:
      return on_hello(report->text);
    case AgentReport::Kind::line:
      return events_.line(report->rank, report->stream, report->text);
    case AgentReport::Kind::error:
      throw Error(report->code, fmt::format("on host {}: {}", host_, report->text));
    case AgentReport::Kind::ended:
      if (running_.erase(report->rank) == 1) events_.ended(report->rank, report->ending);
  }
}

void RemoteRanks::on_hello(const std::string& version) {
  loop_.cancel(timer_);
  if (version != kVersion)
    throw PeerError(
        fmt::format("host {} has paceline {}, this one {}: install the same, or name it with --remote-program", host_,
                    version, kVersion));
  ready_ = true;
  for (const std::string& line : last_words_) events_.note(host_, line);
}

void RemoteRanks::on_note(std::string_view line) {
  last_words_.emplace_back(line.substr(0, 1000));
  if (last_words_.size() > kLastWords) last_words_.pop_front();
  if (ready_) events_.note(host_, line);  // until then, an error may need them
}

void RemoteRanks::on_process_end(const Ending& ending) {
  loop_.cancel(timer_);
  more_ = false;
  if (!started_ && !given_up_) fail(ending.text());
  const std::string why = with_last_words(fmt::format("'{}' {}", command_.front(), ending.text()));
  for (const int rank : std::exchange(running_, {})) events_.ended(rank, {.lost = why});
}

void RemoteRanks::fail(const std::string& how) const {
  throw PeerError(
      with_last_words(fmt::format("cannot start ranks on host {}: '{}' {}", host_, fmt::join(command_, " "), how)));
}

std::string RemoteRanks::with_last_words(const std::string& how) const {
  if (last_words_.empty()) return how;
  return fmt::format("{}; it said: {}", how, fmt::join(last_words_, " | "));
}

std::string address_towards(const std::string& host) {
  const auto fail = [&](const char* why) -> PeerError {
    return PeerError(fmt::format(
        "host {}: {}; is its name spelt right? If only --rsh knows it, say with --address where it reaches this host",
        host, why));
  };
  const addrinfo hints = {.ai_socktype = SOCK_DGRAM};
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(without_user(host).c_str(), "9", &hints, &found);
  if (failure != 0) throw fail(::gai_strerror(failure));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const Descriptor socket(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // Connecting a datagram socket sends nothing: it only chooses the way.
    if (socket.number() < 0 || ::connect(socket.number(), address->ai_addr, address->ai_addrlen) != 0) continue;
    sockaddr_storage mine = {};
    socklen_t length = sizeof mine;
    char text[NI_MAXHOST];
    if (::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&mine), &length) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&mine), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      return text;
  }
  throw fail("no network reaches it");
}

}  // namespace paceline
