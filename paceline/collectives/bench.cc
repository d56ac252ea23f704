#include "paceline/collectives/bench.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "paceline/collectives/platforms.h"
#include "paceline/core/bytes.h"
#include "paceline/core/nearest.h"

namespace paceline {
namespace {

const std::vector<std::string> kPeers = {"openmpi", "gloo"};
const std::string kHybrid = "hybrid";

std::vector<uint64_t> default_sizes() {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 1 << 10; bytes <= 64 << 20; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

std::vector<std::string> default_algorithms(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms())
    if (algorithm.applies(cluster)) names.push_back(algorithm.name);
  names.push_back(kHybrid);
  return names;
}

template <class T>
std::vector<T> each_once(const std::vector<T>& values) {
  std::vector<T> once;
  for (const T& value : values)
    if (std::ranges::find(once, value) == once.end()) once.push_back(value);
  return once;
}

BenchEnvironment environment_of(const Fingerprint& fingerprint, int trials) {
  utsname system = {};
  uname(&system);
  return {.version = fingerprint.version,
          .engine = fingerprint.engine,
          .ranks = fingerprint.ranks,
          .layout = fingerprint.layout,
          .hosts = fingerprint.hosts,
          .cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
          .processor = processor_name(),
          .kernel = fmt::format("{} {}", system.sysname, system.release),
          .compiler = __VERSION__,
          .trials = trials};
}

// What is measured, and the memory for it.
class Contest {
 public:
  Contest(Group& group, const std::vector<Peer>& peers, const BenchOptions& options, uint64_t largest_bytes)
      : group_(group), coordination_(group.split(0, group.rank())), options_(options), peers_(peers) {
    const Cluster cluster = cluster_of(group);
    names_ = options.algorithms.empty() ? default_algorithms(cluster) : each_once(options.algorithms);
    const Grid grid = options.hybrid.grid.value_or(cluster.default_grid());
    for (const std::string& name : names_) {
      if (name == kHybrid) {
        auto hybrid = make_hybrid(group, options.hybrid);
        hybrid_ = hybrid.get();
        algorithms_.push_back(std::move(hybrid));
      } else {
        algorithms_.push_back(all_reduce_algorithm(name).make(group, cluster, grid));
      }
    }
    own_ = group.allocate(largest_bytes);
    if (!peers.empty()) plain_ = allocate_private(largest_bytes);
  }

  std::vector<BenchRow> run(uint64_t bytes) {
    const size_t count = bytes / sizeof(float);
    const std::vector<Contender> contenders = contenders_of(count);
    std::vector<BenchRow> rows;
    for (const Contender& contender : contenders) {
      rows.push_back(
          {.engine = contender.engine, .algorithm = contender.algorithm, .ranks = group_.size(), .bytes = bytes});
      rows.back().max_error = largest_error(*coordination_, contender);
      if (rows.back().is_hybrid()) rows.back().chose = hybrid_->plan().algorithm(DType::f32, bytes);
    }
    const std::vector<Timing> timings =
        time_interleaved(*coordination_, options_.write ? that_write(contenders) : contenders, options_.measure);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].timing = timings[i];
    return rows;
  }

  std::string plan_text() const { return hybrid_ != nullptr ? describe(hybrid_->plan()) : ""; }

 private:
  static std::vector<Contender> that_write(std::vector<Contender> contenders) {
    for (Contender& contender : contenders)
      contender.run = [run = contender.run, data = contender.buffer.as<float>()] {
        std::ranges::fill(data, 1.0f);
        run();
      };
    return contenders;
  }

  std::vector<Contender> contenders_of(size_t count) const {
    std::vector<Contender> contenders;
    const TensorView own = own_.view(count, DType::f32);
    for (size_t i = 0; i < names_.size(); ++i)
      contenders.push_back({group_.engine(), names_[i], own,
                            [algorithm = algorithms_[i].get(), own] { algorithm->run(own, ReduceOp::sum); }});
    for (const Peer& peer : peers_) {
      const TensorView plain = plain_.view(count, DType::f32);
      contenders.push_back({peer.engine, "native", plain, [group = peer.group, plain] {
                              group->native_all_reduce(plain, ReduceOp::sum);  // as a program of theirs would
                            }});
    }
    return contenders;
  }

  Group& group_;
  std::unique_ptr<Group> coordination_;
  const BenchOptions& options_;
  const std::vector<Peer>& peers_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<AllReduce>> algorithms_;
  Hybrid* hybrid_ = nullptr;
  Memory own_;
  Memory plain_;  // of the peers
};

}  // namespace

void check(const BenchOptions& options, const Cluster& cluster) {
  for (const uint64_t bytes : options.bytes)
    if (bytes == 0 || bytes % sizeof(float) != 0)
      throw UsageError(fmt::format("{} bytes are no whole number of f32: give multiples of 4", bytes));
  for (const std::string& peer : options.peers)
    if (std::ranges::find(kPeers, peer) == kPeers.end())
      throw UsageError(fmt::format("there is no peer '{}'{} (known: {})", peer, did_you_mean(peer, kPeers),
                                   fmt::join(kPeers, ", ")));
  for (const std::string& name : options.algorithms)
    if (name != kHybrid && !all_reduce_algorithm(name).applies(cluster))
      throw UsageError(fmt::format("{} does not apply to engine {} with {} ranks on {} host{}", name, cluster.name,
                                   cluster.ranks, cluster.hosts, cluster.hosts == 1 ? "" : "s"));
}

BenchReport bench_all_reduce(World& world, const BenchOptions& options) {
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<Peer> peers;
  for (const std::string& name : each_once(options.peers)) {
    const bool openmpi = name == "openmpi";
    groups.push_back(world.make_group(openmpi ? "mpi" : "gloo", name));
    peers.push_back({openmpi ? "openmpi" : "gloo-library", groups.back().get()});
  }
  return bench_all_reduce(world.group(), peers, options);
}

BenchReport bench_all_reduce(Group& group, const std::vector<Peer>& peers, const BenchOptions& options) {
  check(options, cluster_of(group));
  const std::vector<uint64_t> sizes = options.bytes.empty() ? default_sizes() : each_once(options.bytes);
  Contest contest(group, peers, options, std::ranges::max(sizes));
  const Grid grid = options.hybrid.grid.value_or(cluster_of(group).default_grid());
  BenchReport report = {environment_of(fingerprint_of(group, grid), options.measure.trials), {}};
  report.environment.plan = contest.plan_text();
  report.environment.written = options.write;
  for (const uint64_t bytes : sizes) {
    if (group.rank() == 0) options.progress(fmt::format("measuring {}", print_bytes(bytes)));
    const std::vector<BenchRow> rows = contest.run(bytes);
    report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  }
  return report;
}

}  // namespace paceline
