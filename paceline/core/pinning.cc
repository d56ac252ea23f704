#include "paceline/core/pinning.h"

#include <sched.h>

#include "paceline/core/check.h"

namespace paceline {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;  // more cores than the set has bits
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::vector<int> cores_of_part(const std::vector<int>& cores, int part, int parts) {
  CHECK_TRUE(part >= 0 && part < parts, "part {} of {}", part, parts);
  const size_t each = cores.size() / static_cast<size_t>(parts);
  const auto first = cores.begin() + static_cast<ptrdiff_t>(each) * part;
  return {first, first + static_cast<ptrdiff_t>(each)};
}

void pin_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);  // a container may forbid it: then nothing is lost but some speed
}

}  // namespace paceline
