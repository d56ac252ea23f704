#include "paceline/core/usable_cores.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "paceline/core/pinning.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> positive(const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed_to, failure] = std::from_chars(text.data(), end, number);
  // OMP_NUM_THREADS may hold one number for each level of nested loops.
  const bool whole = parsed_to == end || *parsed_to == ',' || *parsed_to == '\n';
  return failure == std::errc() && whole && number > 0 ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> positive(const Variable& environment, const std::string& name) {
  return positive(environment(name).value_or(""));
}

std::string line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The same number for the same set of cores.
int64_t number_of(const std::vector<int>& cores) {
  uint64_t hash = 14695981039346656037u;
  for (const int core : cores) hash = (hash ^ static_cast<uint64_t>(core)) * 1099511628211u;
  return static_cast<int64_t>(hash);
}

// "200000 100000", "max 100000"
std::optional<int64_t> quota_of_v2(const fs::path& folder) {
  std::istringstream words(line_of(folder / "cpu.max"));
  std::string quota, period;
  words >> quota >> period;
  const auto micros = positive(quota), per = positive(period);
  return micros && per ? std::optional(*micros * 1000 / *per) : std::nullopt;
}

std::optional<int64_t> quota_of_v1(const fs::path& folder) {
  const auto micros = positive(line_of(folder / "cpu.cfs_quota_us")),
             per = positive(line_of(folder / "cpu.cfs_period_us"));
  return micros && per ? std::optional(*micros * 1000 / *per) : std::nullopt;
}

// The smallest quota from the group `path` of the hierarchy at `mount` up to its root. A container may see the path
// that its group has on the host, but only its own group, as the root.
void limit_by(CoreLimit& limit, const fs::path& mount, const fs::path& path,
              std::optional<int64_t> (*quota_of)(const fs::path&)) {
  fs::path group = path.lexically_normal().relative_path();
  while (true) {
    const fs::path folder = mount / group;
    struct stat status = {};
    if (const auto quota = quota_of(folder); quota && *quota < limit.millicores && ::stat(folder.c_str(), &status) == 0)
      limit = {.of = static_cast<int64_t>(status.st_ino), .millicores = *quota};
    if (group.empty()) return;
    group = group.parent_path();
  }
}

bool names_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "cpu") return true;
  return false;
}

CoreLimit quota(const fs::path& root) {
  CoreLimit limit;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path path = line.substr(second + 1), mounts = root / "sys/fs/cgroup";
    if (controllers.empty()) {
      limit_by(limit, mounts, path, quota_of_v2);
    } else if (names_cpu(controllers)) {
      limit_by(limit, mounts / controllers, path, quota_of_v1);
      limit_by(limit, mounts / "cpu", path, quota_of_v1);
    }
  }
  return limit;
}

// A task of srun has its own cores; what a batch script starts by itself has those of all tasks on its node.
CoreLimit slurm_task(const Variable& environment) {
  const auto cores = positive(environment, "SLURM_CPUS_PER_TASK");
  if (!cores) return {};
  constexpr uint64_t kFirstSpecialStep = 0xfffffff0;  // as in rendezvous/identity.cc
  const std::string step = environment("SLURM_STEP_ID").value_or(""), rank = environment("SLURM_PROCID").value_or("");
  uint64_t number = kFirstSpecialStep;
  std::from_chars(step.data(), step.data() + step.size(), number);
  if (number < kFirstSpecialStep && !rank.empty())
    return {.of = positive(rank).value_or(0), .millicores = *cores * 1000};
  const int64_t tasks = positive(environment, "SLURM_NTASKS").value_or(1);
  const int64_t nodes = positive(environment, "SLURM_NNODES").value_or(1);
  return {.of = -1, .millicores = *cores * 1000 * std::max<int64_t>(1, tasks / nodes)};
}

int64_t share_of(const CoreLimit& limit, int64_t processes) {
  return limit.millicores == CoreLimit::kNone ? limit.millicores
                                              : limit.millicores / 1000 / std::max<int64_t>(1, processes);
}

int at_least_one(int64_t number) { return static_cast<int>(std::clamp<int64_t>(number, 1, 1 << 20)); }

}  // namespace

UsableCores usable_cores(const Variable& environment, const std::vector<int>& cores, const fs::path& root) {
  UsableCores usable = {.quota = quota(root), .task = slurm_task(environment)};
  if (!cores.empty()) {
    usable.affinity = {.of = number_of(cores), .millicores = static_cast<int64_t>(cores.size()) * 1000};
  } else {  // more cores than sched_getaffinity was asked for
    usable.affinity.millicores = std::max<int64_t>(1, std::thread::hardware_concurrency()) * 1000;
  }
  usable.threads = positive(environment, "OMP_NUM_THREADS").value_or(CoreLimit::kNone);
  return usable;
}

UsableCores usable_cores() {
  const auto variable = [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  return usable_cores(variable, allowed_cores());
}

int threads_of(const UsableCores& mine, std::span<const UsableCores> all) {
  int64_t threads = mine.threads;
  for (CoreLimit UsableCores::*kind : {&UsableCores::affinity, &UsableCores::quota, &UsableCores::task}) {
    const auto sharing =
        std::ranges::count_if(all, [&](const UsableCores& other) { return (other.*kind).of == (mine.*kind).of; });
    threads = std::min(threads, share_of(mine.*kind, sharing));
  }
  return at_least_one(threads);
}

CoreLimit strictest(const UsableCores& mine) {
  return std::min({mine.affinity, mine.quota, mine.task},
                  [](const CoreLimit& a, const CoreLimit& b) { return a.millicores < b.millicores; });
}

int cores_of(const UsableCores& mine) { return at_least_one(share_of(strictest(mine), 1)); }

}  // namespace paceline
