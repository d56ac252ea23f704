#include "paceline/launch/mpirun.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "paceline/core/error.h"
#include "paceline/launch/local_ranks.h"

namespace paceline {
namespace {

struct Tag {
  size_t begin, end;  // of its text
  int rank;
};

// The first "[1,RANK]<stdout>:" (or stderr) in `line`.
std::optional<Tag> find_tag(std::string_view line, Stream stream) {
  const std::string_view mark = stream == Stream::output ? "]<stdout>:" : "]<stderr>:";
  for (size_t at = line.find(mark); at != std::string_view::npos; at = line.find(mark, at + 1)) {
    const size_t comma = line.substr(0, at).rfind(',');
    const size_t bracket = line.substr(0, at).rfind('[');
    if (comma == std::string_view::npos || bracket == std::string_view::npos || bracket > comma) continue;
    int rank = 0;
    const auto [end, failure] = std::from_chars(line.data() + comma + 1, line.data() + at, rank);
    if (failure == std::errc() && end == line.data() + at) return Tag{bracket, at + mark.size(), rank};
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> one_host_variables(const MpirunOptions& options, const Environment& environment) {
  if (!options.hosts.empty()) return {};
  for (const char* const name :
       {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "OMPI_MCA_orte_default_hostfile",  // other hosts
        "OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl"})                                            // a choice
    if (environment(name)) return {};
  return {"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader"};
}

std::vector<std::string> mpirun_command(const MpirunOptions& options, const std::vector<std::string>& environment,
                                        const std::vector<std::string>& command) {
  std::vector<std::string> words = {"mpirun",          "-n",        fmt::format("{}", options.ranks),
                                    "--oversubscribe", "--bind-to", "none",
                                    "--tag-output"};  // a rank has several threads
  if (!options.hosts.empty()) words.insert(words.end(), {"--host", options.hosts});
  if (!options.rsh.empty()) words.insert(words.end(), {"--mca", "plm_rsh_agent", options.rsh});
  for (const std::string& entry : environment) words.insert(words.end(), {"-x", entry.substr(0, entry.find('='))});
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

void MpirunOutput::add_line(Stream stream, std::string_view line) {
  std::optional<Tag> tag = find_tag(line, stream);
  std::optional<int> rank = stream == Stream::output ? last_rank_ : std::nullopt;
  if (line.starts_with("mpirun: Forwarding signal")) return;  // as it was asked to
  if (!tag && !rank) return events_.note("mpirun", line);
  while (true) {
    const std::string_view piece = line.substr(0, tag ? tag->begin : line.size());
    if (rank) lines_of(*rank, stream).feed(piece);
    if (!rank && !piece.empty()) events_.note("mpirun", piece);
    if (!tag) break;
    rank = tag->rank;
    line.remove_prefix(tag->end);
    tag = find_tag(line, stream);
  }
  lines_of(*rank, stream).feed("\n");
  if (stream == Stream::output) last_rank_ = rank;
}

void MpirunOutput::finish() {
  for (auto& [source, lines] : lines_) lines.finish();
}

LineSplitter& MpirunOutput::lines_of(int rank, Stream stream) {
  return lines_
      .try_emplace({rank, stream}, [this, rank, stream](std::string_view line) { events_.line(rank, stream, line); })
      .first->second;
}

MpirunRanks::MpirunRanks(PollLoop& loop, RankEvents events, MpirunOptions options)
    : loop_(loop), events_(std::move(events)), options_(std::move(options)), output_(events_) {}

void MpirunRanks::start(const JobOrder& job) {
  std::vector<std::string> environment = job.ranks.front().environment;
  const std::vector<std::string> words = mpirun_command(options_, environment, job.command);
  for (std::string& variable : one_host_variables(options_, process_environment()))
    environment.push_back(std::move(variable));
  if (::geteuid() == 0)
    environment.insert(environment.end(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  try {
    find_program("mpirun");
  } catch (const UsageError&) {
    throw UsageError(
        "the engine mpi needs OpenMPI's mpirun, which PATH does not have: install the package openmpi-bin");
  }
  process_.emplace(
      loop_,
      // On SIGTERM mpirun ends its ranks; were it killed, they would stay.
      ProcessOrder{.arguments = words, .environment = environment, .input = inherited_input(), .death_signal = SIGTERM},
      LineProcess::Events{.line = [this](Stream stream, std::string_view line) { output_.add_line(stream, line); },
                          .ended =
                              [this](const Ending& ending) {
                                output_.finish();
                                events_.ended(RankEvents::kAll, ending);
                              }},
      LineProcess::Options{.lines = {.longest_bytes = 1 << 20, .returns_end_lines = false}});
}

void MpirunRanks::signal(int signal) {
  if (process_) process_->signal(signal);
}

void MpirunRanks::pause(bool paused) {
  if (process_) process_->pause(paused);
}

}  // namespace paceline
