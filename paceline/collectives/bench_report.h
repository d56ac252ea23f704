// What a benchmark of all-reduces found: rows for programs (JSON), a table for people. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/collectives/measure.h"

namespace paceline {

struct BenchRow {
  std::string engine;     // of a peer: "openmpi", "gloo-library"
  std::string algorithm;  // of a peer: "native"
  int ranks = 1;
  uint64_t bytes = 0;
  Timing timing;
  double max_error = 0;  // largest_error() of measure.h
  std::string chose;     // the hybrid's choice; empty for others

  bool is_peer() const { return engine == "openmpi" || engine == "gloo-library"; }
  bool is_hybrid() const { return algorithm == "hybrid"; }
  double microseconds() const { return timing.median_s * 1e6; }
  // 2(p-1)/p * bytes / time: what the busiest link carries in one direction when no byte goes twice. Comparable between
  // numbers of ranks, and with the bandwidth of the links; 0 for one rank.
  double bus_gbps() const;
};

struct BenchEnvironment {
  std::string version;
  std::string engine;
  int ranks = 1;
  std::string layout;
  std::vector<std::string> hosts;
  int cores = 1;  // of the first rank's host
  std::string processor;
  std::string kernel;
  std::string compiler;
  int trials = 0;
  std::string plan;      // describe(Plan)
  bool written = false;  // buffers, before every call
};

// Every contender at every size.
struct BenchReport {
  BenchEnvironment environment;
  std::vector<BenchRow> rows;
};

std::string to_json(const BenchReport& report);

// A row per contender, a column per size: microseconds; then how the hybrid compares with the better peer.
std::string to_table(const BenchReport& report);

// The hybrid against the better peer at each size, where both were measured: above 1 it is faster.
struct Speedup {
  uint64_t bytes = 0;
  double times = 1;
};
std::vector<Speedup> hybrid_speedups(const BenchReport& report);
double geometric_mean(const std::vector<Speedup>& speedups);

// Whether more than a quarter of the times of the hybrid and the peers scatter (half the distance of the quartiles) by
// more than 40 % of their median: then no factor between them is worth printing.
bool is_noisy(const BenchReport& report);

// The first row whose error is beyond rounding, in words; nothing when all are right.
std::optional<std::string> first_wrong_result(const BenchReport& report);

}  // namespace paceline
