#include "paceline/comm/patience.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace paceline {
namespace {

int cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

void Bed::wake() {
  bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// A launcher that pins each rank to one core leaves `cores` at 1: then ask the whole machine.
Patience::Patience(int ranks) {
  const int available = cores() > 1 ? cores() : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  most_spins_ = ranks <= available ? 1000 : 0;
  spins_ = most_spins_;
}

void Patience::yield() { sched_yield(); }

void Patience::sleep(Bed& bed, uint32_t bell) {
  const timespec at_most = {.tv_sec = 0, .tv_nsec = 50'000'000};
  syscall(SYS_futex, &bed.bell, FUTEX_WAIT, bell, &at_most, nullptr, 0);
}

}  // namespace paceline
