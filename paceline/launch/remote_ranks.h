// RemoteRanks: the ranks of another host, started through ssh (or another command) by an agent there. The secret goes
// to the agent's standard input. When this process is gone, that ends, and with it the ranks.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "paceline/launch/host_ranks.h"

namespace paceline {

struct RemoteShell {
  std::string command = "ssh -o BatchMode=yes";  // split at spaces; the host's name follows
  std::string program;                           // paceline, as the other host has it
  int64_t hello_ms = 20'000;                     // by when the agent must have answered
};

// The command that starts the agent on `host`. ssh hands its words to a shell there, so they are quoted for it; other
// commands (`ip netns exec`) are taken to run their words as they are.
std::vector<std::string> agent_command(const RemoteShell& shell, const std::string& host);

class RemoteRanks : public HostRanks {
 public:
  // Calls its host at once; ready() when the agent has answered. From then on turns of the loop may throw PeerError
  // that names host and command (it cannot be reached, it does not answer), or what the agent says (no such program).
  RemoteRanks(PollLoop& loop, RankEvents events, std::string host, const RemoteShell& shell);
  ~RemoteRanks() override;

  bool ready() const override { return ready_; }
  void start(const JobOrder& job) override;
  void signal(int signal) override;
  void pause(bool paused) override { process_.pause(paused); }
  void kill_ranks() override;
  void release() override;
  bool gone() const override { return more_ && !given_up_ ? running_.empty() : process_.gone(); }

 private:
  void on_line(Stream stream, std::string_view line);
  void on_hello(const std::string& version);
  void on_note(std::string_view line);
  void on_process_end(const Ending& ending);
  [[noreturn]] void fail(const std::string& how) const;
  std::string with_last_words(const std::string& how) const;

  PollLoop& loop_;
  RankEvents events_;
  std::string host_;
  std::vector<std::string> command_;
  bool ready_ = false;
  bool started_ = false;
  bool given_up_ = false;
  bool more_ = false;  // the agent waits for further jobs
  std::set<int> running_;
  std::deque<std::string> last_words_;
  PollLoop::TimerId timer_ = 0;  // for the hello; later, for the end of what was killed
  LineProcess process_;
};

// The address of this host from which packets to `host` leave: where that host reaches this one. Throws PeerError: the
// name does not resolve, or there is no way there.
std::string address_towards(const std::string& host);

}  // namespace paceline
