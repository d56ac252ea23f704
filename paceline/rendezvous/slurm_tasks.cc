#include "paceline/rendezvous/slurm_tasks.h"

#include <charconv>

namespace paceline {

std::optional<int> slurm_tasks_left_out(const Environment& environment) {
  if (find_identity(environment).starter != Identity::Starter::alone) return std::nullopt;
  const std::string job = environment("SLURM_JOB_ID").value_or(""), tasks = environment("SLURM_NTASKS").value_or("");
  int count = 0;
  const char* const end = tasks.data() + tasks.size();
  const auto [parsed_to, failure] = std::from_chars(tasks.data(), end, count);
  const bool several = failure == std::errc() && parsed_to == end && count > 1;
  return !job.empty() && several ? std::optional(count) : std::nullopt;
}

}  // namespace paceline
