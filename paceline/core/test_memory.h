// For tests: how much memory something takes at its peak.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <string>

namespace paceline {

// The most memory that this process has had resident at once (VmHWM).
inline size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (size_t kib = 0; word == "VmHWM:" && status >> kib) return kib << 10;
  return 0;
}

// By how much `work` raises the peak, in a process of its own: there the peak begins at what is in use.
inline size_t peak_growth_bytes(const std::function<void()>& work) {
  int ends[2] = {};
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const size_t before = peak_resident_bytes();
    work();
    const size_t growth = peak_resident_bytes() - before;
    ::_exit(::write(ends[1], &growth, sizeof growth) == sizeof growth && before > 0 ? 0 : 1);
  }
  size_t growth = 0;
  EXPECT_EQ(::close(ends[1]), 0);
  EXPECT_EQ(::read(ends[0], &growth, sizeof growth), static_cast<ssize_t>(sizeof growth));
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return growth;
}

}  // namespace paceline
