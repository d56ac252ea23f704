#include "paceline/launch/local_ranks.h"

#include <unistd.h>

#include <algorithm>

namespace paceline {

LocalRanks::LocalRanks(PollLoop& loop, RankEvents events, ProcessOrder::Input first_input, bool first_inherits_output)
    : loop_(loop),
      events_(std::move(events)),
      first_input_(first_input),
      first_inherits_output_(first_inherits_output) {}

void LocalRanks::start(const JobOrder& job) {
  for (const RankOrder& order : job.ranks) {
    const int rank = order.rank;
    const ProcessOrder process = {.arguments = job.command,
                                  .environment = order.environment,
                                  .input = rank == 0 ? first_input_ : ProcessOrder::Input::nothing,
                                  .inherits_output = rank == 0 && first_inherits_output_};
    LineProcess::Events events = {
        .line = [this, rank](Stream stream, std::string_view line) { events_.line(rank, stream, line); },
        .ended = [this, rank](const Ending& ending) { events_.ended(rank, ending); }};
    processes_.push_back(std::make_unique<LineProcess>(loop_, process, std::move(events)));
  }
}

void LocalRanks::signal(int signal) {
  for (const auto& process : processes_) process->signal(signal);
}

void LocalRanks::pause(bool paused) {
  for (const auto& process : processes_) process->pause(paused);
}

bool LocalRanks::gone() const {
  return std::ranges::all_of(processes_, [](const auto& process) { return process->gone(); });
}

ProcessOrder::Input inherited_input() {
  return ::isatty(STDIN_FILENO) == 1 ? ProcessOrder::Input::nothing : ProcessOrder::Input::inherited;
}

}  // namespace paceline
