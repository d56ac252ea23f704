#include "paceline/collectives/measured_profile.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/group_text.h"
#include "paceline/collectives/measure.h"
#include "paceline/collectives/platforms.h"
#include "paceline/core/version.h"

namespace paceline {
namespace {

constexpr double kHopeless = 3;   // times as slow as the quickest: it will not be chosen
constexpr uint64_t kFactor = 4;   // from one size to the next
constexpr uint64_t kBuffers = 5;  // of the largest size that algorithms have at a time: data, staging, scratch

// The largest buffer for which this host has memory in plenty.
int64_t roomy_bytes(const Group& group) {
  struct statvfs space = {};
  if (!group.engine().starts_with("shm") || statvfs("/dev/shm", &space) != 0) return INT64_MAX;
  const Topology& topology = group.topology();
  const uint64_t ranks_here = topology.ranks_of(topology.host_of(group.rank())).size();
  return static_cast<int64_t>(space.f_bavail * space.f_frsize / 2 / (kBuffers * ranks_here));
}

uint64_t roomy_bytes_everywhere(Group& group) {
  int64_t mine = roomy_bytes(group);
  std::vector<int64_t> all(group.size());
  group.all_gather({&mine, 1, DType::i64}, view(all));
  return static_cast<uint64_t>(std::ranges::min(all));
}

bool agree(Group& group, bool answer) {
  uint8_t told = answer ? 1 : 0;
  group.broadcast({&told, 1, DType::u8}, 0);
  return told != 0;
}

// What is measured lives in a group of its own, so that its scratch goes when the measuring is done.
class Measuring {
 public:
  Measuring(Group& group, Grid grid, uint64_t largest_bytes)
      : coordination_(group), measured_(group.split(0, group.rank())), buffer_(measured_->allocate(largest_bytes)) {
    const Cluster cluster = cluster_of(*measured_);
    for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) {
      if (!algorithm.applies(cluster)) continue;
      names_.push_back(algorithm.name);
      algorithms_.push_back(algorithm.make(*measured_, cluster, grid));
    }
  }

  std::vector<ProfileRow> rows(uint64_t bytes, DType dtype, const MeasureOptions& options) {
    const TensorView data = buffer_.view(bytes / size_of(dtype), dtype);
    std::vector<Contender> contenders;
    for (size_t i = 0; i < names_.size(); ++i)
      contenders.push_back({measured_->engine(), names_[i], data,
                            [algorithm = algorithms_[i].get(), data] { algorithm->run(data, ReduceOp::sum); }});
    const std::vector<Timing> timings = time_interleaved(coordination_, contenders, options);
    std::vector<ProfileRow> rows;
    for (size_t i = 0; i < names_.size(); ++i) rows.push_back({names_[i], dtype, data.bytes(), timings[i].median_s});
    return rows;
  }

 private:
  Group& coordination_;
  std::unique_ptr<Group> measured_;
  Memory buffer_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<AllReduce>> algorithms_;
};

bool same_place(const ProfileRow& one, const ProfileRow& other) {
  return one.dtype == other.dtype && one.bytes == other.bytes;
}

double quickest(const std::vector<ProfileRow>& rows, const ProfileRow& place) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const ProfileRow& row : rows)
    if (same_place(row, place)) seconds = std::min(seconds, row.seconds);
  return seconds;
}

}  // namespace

std::vector<ProfileRow> combined(const std::vector<ProfileRow>& first, const std::vector<ProfileRow>& second) {
  std::vector<ProfileRow> rows;
  for (const ProfileRow& once : first) {
    const auto again = std::ranges::find_if(
        second, [&](const ProfileRow& row) { return same_place(row, once) && row.algorithm == once.algorithm; });
    rows.push_back(once);
    if (again == second.end()) continue;
    const double best_first = quickest(first, once), best_second = quickest(second, once);
    const double slower = std::max(once.seconds / best_first, again->seconds / best_second);
    rows.back().seconds = slower * std::min(best_first, best_second);
  }
  return rows;
}

double disagreement_of(const std::vector<ProfileRow>& first, const std::vector<ProfileRow>& second) {
  std::vector<double> ratios;
  for (const ProfileRow& once : first)
    for (const ProfileRow& again : second)
      if (same_place(once, again) && once.algorithm == again.algorithm)
        ratios.push_back(std::max(once.seconds, again.seconds) / std::min(once.seconds, again.seconds));
  if (ratios.empty()) return 1;
  std::ranges::sort(ratios);
  return quantile(ratios, 0.5);
}

Fingerprint fingerprint_of(Group& group, Grid grid) {
  const std::vector<std::string> hardware = gather_texts(group, hardware_text());
  const Topology& topology = group.topology();
  Fingerprint fingerprint = {kVersion, group.engine(), group.size(), layout_text(topology), to_text(grid), {}};
  for (int host = 0; host < topology.hosts(); ++host)
    fingerprint.hosts.push_back(hardware[topology.ranks_of(host).front()]);
  return fingerprint;
}

Profile measure_profile(Group& group, Grid grid, const ProfileOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Profile profile = {fingerprint_of(group, grid), {}};
  const uint64_t largest = std::min(options.largest_bytes, roomy_bytes_everywhere(group));
  if (largest < options.smallest_bytes) return profile;
  Measuring measuring(group, grid, largest);
  const double budget_s = options.budget_s / static_cast<double>(2 * options.dtypes.size());
  const MeasureOptions measure = {
      .trials = options.trials / 2 + 1, .fewest_trials = 3, .budget_s = budget_s / 12, .hopeless = kHopeless};
  const auto pass = [&] {
    std::vector<ProfileRow> all;
    for (const DType dtype : options.dtypes) {
      const auto begin = Clock::now();
      for (uint64_t bytes = options.smallest_bytes; bytes <= largest; bytes *= kFactor) {
        const std::vector<ProfileRow> rows = measuring.rows(bytes, dtype, measure);
        all.insert(all.end(), rows.begin(), rows.end());
        if (!agree(group, seconds_since(begin) <= budget_s)) break;
      }
    }
    return all;
  };
  const std::vector<ProfileRow> first = pass(), second = pass();
  profile.rows = combined(first, second);
  profile.disagreement = disagreement_of(first, second);
  return profile;
}

}  // namespace paceline
