// The benchmark of all-reduces: every algorithm, the planner's choice and other libraries beside each other, in the
// same processes and the same rounds, checked before they are timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/collectives/bench_report.h"
#include "paceline/collectives/hybrid.h"
#include "paceline/rendezvous/world.h"

namespace paceline {

struct BenchOptions {
  std::vector<uint64_t> bytes;          // empty: 1 KiB to 64 MiB in powers of 4
  std::vector<std::string> algorithms;  // empty: all that apply, and "hybrid"
  std::vector<std::string> peers;       // "openmpi", "gloo"
  MeasureOptions measure;               // for each size
  bool write = false;                   // the buffer before every call, as a training step does; the time counts
  HybridOptions hybrid;
  std::function<void(const std::string& text)> progress = [](const std::string&) {};  // rank 0
};

// Throws UsageError: a size that is no whole number of f32, an unknown algorithm or peer, an algorithm that does not
// apply to the cluster.
void check(const BenchOptions& options, const Cluster& cluster);

// Every rank calls it, with the same options; all get the same report. REQUIRES: check() has passed
BenchReport bench_all_reduce(World& world, const BenchOptions& options);

// The same, with groups of the peers' that exist already: what it calls their engine, and their group of all ranks.
struct Peer {
  std::string engine;
  Group* group = nullptr;
};
BenchReport bench_all_reduce(Group& group, const std::vector<Peer>& peers, const BenchOptions& options);

}  // namespace paceline
