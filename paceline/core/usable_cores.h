// How many cores a process may keep busy: as many as its affinity, its cgroup, its Slurm task and OMP_NUM_THREADS
// leave. Ranks of one host gather each other's limits, because some of them are for several processes together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline {

// The value of an environment variable, where it is set.
using Variable = std::function<std::optional<std::string>(const std::string& name)>;

// A limit on processes together: all whose limit has the same `of` share it.
struct CoreLimit {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  int64_t of = 0;
  int64_t millicores = kNone;  // a cgroup may allow 1.5 cores

  bool operator==(const CoreLimit&) const = default;
};

// Integers only, so that ranks can send it as it is.
struct UsableCores {
  CoreLimit affinity;                  // cores that the scheduler lets the process run on
  CoreLimit quota;                     // the smallest of its cgroup and those around it: cpu.max, cpu.cfs_quota_us
  CoreLimit task;                      // SLURM_CPUS_PER_TASK; a task may start several ranks
  int64_t threads = CoreLimit::kNone;  // OMP_NUM_THREADS, of each process

  bool operator==(const UsableCores&) const = default;
};

// Pure but for the files below `root`: /proc/self/cgroup and /sys/fs/cgroup. `cores`: allowed_cores() of the process.
// Values that make no sense limit nothing.
UsableCores usable_cores(const Variable& environment, const std::vector<int>& cores,
                         const std::filesystem::path& root = "/");
UsableCores usable_cores();  // of this process

// Threads with which a process of these limits computes, when `all` (with itself) compute on its host. Shared limits
// are split evenly and rounded down; at least 1.
int threads_of(const UsableCores& mine, std::span<const UsableCores> all);

// The smallest of what limits the process and those that share it with it; OMP_NUM_THREADS does not.
CoreLimit strictest(const UsableCores& mine);
int cores_of(const UsableCores& mine);  // by that limit, rounded down; at least 1

}  // namespace paceline
