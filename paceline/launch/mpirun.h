// MpirunRanks: ranks that OpenMPI's mpirun starts, because MPI's processes can only find each other under it. mpirun is
// one child; it ends the others when a rank fails, and its exit code is that rank's.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "paceline/launch/host_ranks.h"
#include "paceline/rendezvous/identity.h"

namespace paceline {

struct MpirunOptions {
  int ranks = 1;
  std::string hosts;  // "a:4,b:4"; empty: this one
  std::string rsh;    // to reach them; empty: mpirun's own choice
};

// Variables for mpirun that let ranks of one host meet in shared memory alone; they then listen nowhere. None where
// ranks may come to lie on several hosts (`hosts`, a batch system's allocation, a list of hosts of OpenMPI's), or where
// the user has chosen among OpenMPI's transports in the environment.
std::vector<std::string> one_host_variables(const MpirunOptions& options, const Environment& environment);

// The words that start `command` under mpirun. Variables go by name: their values stay out of sight.
std::vector<std::string> mpirun_command(const MpirunOptions& options, const std::vector<std::string>& environment,
                                        const std::vector<std::string>& command);

// Takes apart what `mpirun --tag-output` prints: pieces of lines, each behind "[1,RANK]<stdout>:", in any order.
class MpirunOutput {
 public:
  explicit MpirunOutput(RankEvents events) : events_(std::move(events)) {}
  void add_line(Stream stream, std::string_view line);  // without its end
  void finish();

 private:
  LineSplitter& lines_of(int rank, Stream stream);

  RankEvents events_;
  std::map<std::pair<int, Stream>, LineSplitter> lines_;
  std::optional<int> last_rank_;  // on standard output, where mpirun itself says nothing
};

class MpirunRanks : public HostRanks {
 public:
  MpirunRanks(PollLoop& loop, RankEvents events, MpirunOptions options);

  bool ready() const override { return true; }
  // The first rank's environment is for all. Throws UsageError: there is no mpirun.
  void start(const JobOrder& job) override;
  void signal(int signal) override;
  void pause(bool paused) override;
  bool gone() const override { return !process_ || process_->gone(); }

 private:
  PollLoop& loop_;
  RankEvents events_;
  MpirunOptions options_;
  MpirunOutput output_;
  std::optional<LineProcess> process_;
};

}  // namespace paceline
