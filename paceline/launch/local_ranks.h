// LocalRanks: ranks that are child processes of this one.
#pragma once

#include <memory>
#include <vector>

#include "paceline/launch/host_ranks.h"

namespace paceline {

class LocalRanks : public HostRanks {
 public:
  // Rank 0 gets `first_input` as its standard input, the others nothing; it may write to the terminal itself.
  LocalRanks(PollLoop& loop, RankEvents events, ProcessOrder::Input first_input, bool first_inherits_output = false);

  bool ready() const override { return true; }
  void start(const JobOrder& job) override;  // Throws UsageError: the program is missing, or cannot be started.
  void signal(int signal) override;
  void pause(bool paused) override;
  bool gone() const override;

 private:
  PollLoop& loop_;
  RankEvents events_;
  ProcessOrder::Input first_input_;
  bool first_inherits_output_;
  std::vector<std::unique_ptr<LineProcess>> processes_;
};

// Standard input as rank 0 gets it: a file or a pipe is inherited; a terminal is not, because ranks are process groups
// of their own, and a group in the background that reads from its terminal is stopped.
ProcessOrder::Input inherited_input();

}  // namespace paceline
