#include "paceline/collectives/bucket_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/json_number.h"

namespace paceline {
namespace {

constexpr uint64_t kFirstBucketBytes = 1 << 20;
constexpr uint64_t kSmallestBytes = 1 << 20;
constexpr uint64_t kLargestBytes = 64 << 20;
constexpr size_t kAlignment = 64;   // elements
constexpr double kRounding = 1e-9;  // of the step: times that differ by less are the same

void append(Bucket& bucket, size_t parameter, size_t count) {
  bucket.parameters.push_back(parameter);
  bucket.offsets.push_back(bucket.count);
  bucket.count += count;
}

// Whether it leaves without the next parameter.
bool complete(const Bucket& bucket, uint64_t target_bytes, uint64_t next_bytes) {
  const uint64_t bytes = bucket.bytes();
  if (bytes >= target_bytes) return true;
  const uint64_t missing = target_bytes - bytes;
  return bytes >= missing && next_bytes > missing && next_bytes - missing > target_bytes / 2;
}

void place_one_after_the_other(std::vector<Bucket>& buckets) {
  size_t begin = 0;
  for (Bucket& bucket : buckets) {
    if (bucket.lone) continue;
    bucket.begin = begin;
    begin += (bucket.count + kAlignment - 1) / kAlignment * kAlignment;
  }
}

// The elements of each parameter of a bucket.
std::vector<size_t> counts_of(const Bucket& bucket) {
  std::vector<size_t> counts(bucket.offsets.begin() + 1, bucket.offsets.end());
  counts.push_back(bucket.count);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] -= bucket.offsets[i];
  return counts;
}

std::vector<double> seconds_of(const BucketPlan& plan, const AllReduceSeconds& all_reduce_seconds) {
  std::vector<double> seconds;
  for (const Bucket& bucket : plan.buckets) seconds.push_back(all_reduce_seconds(bucket.bytes()));
  return seconds;
}

}  // namespace

size_t BucketPlan::memory_count() const {
  size_t end = 0;
  for (const Bucket& bucket : buckets)
    if (!bucket.lone) end = bucket.begin + bucket.count;
  return end;
}

bool BucketPlan::fits(std::span<const size_t> counts) const {
  std::vector<size_t> planned(counts.size());
  size_t parameters = 0;
  for (const Bucket& bucket : buckets) {
    const std::vector<size_t> of_bucket = counts_of(bucket);
    for (size_t i = 0; i < of_bucket.size(); ++i) {
      if (bucket.parameters[i] >= counts.size()) return false;
      planned[bucket.parameters[i]] = of_bucket[i];
      ++parameters;
    }
  }
  return parameters == counts.size() && std::ranges::equal(planned, counts);
}

BucketPlan plan_buckets(std::span<const size_t> counts, uint64_t bucket_bytes, uint64_t lone_bytes) {
  CHECK_GT(bucket_bytes, 0u);
  BucketPlan plan = {.bucket_bytes = bucket_bytes, .buckets = {}};
  Bucket gathering;
  const auto leave_if_complete = [&](uint64_t next_bytes) {
    const bool first = plan.buckets.empty() && bucket_bytes != kOneBucket;
    const uint64_t target = first ? std::min(bucket_bytes, kFirstBucketBytes) : bucket_bytes;
    if (!gathering.parameters.empty() && complete(gathering, target, next_bytes))
      plan.buckets.push_back(std::exchange(gathering, {}));
  };
  for (size_t parameter = 0; parameter < counts.size(); ++parameter) {
    const uint64_t bytes = counts[parameter] * sizeof(float);
    const bool lone = bytes >= lone_bytes;
    leave_if_complete(lone ? 0 : bytes);
    if (lone) plan.buckets.emplace_back().lone = true;
    append(lone ? plan.buckets.back() : gathering, parameter, counts[parameter]);
  }
  if (!gathering.parameters.empty()) plan.buckets.push_back(std::move(gathering));
  place_one_after_the_other(plan.buckets);
  return plan;
}

uint64_t chosen_lone_bytes(uint64_t bucket_bytes, bool ranks_share_memory) {
  constexpr uint64_t kWorthAMeeting = 256 << 10;
  return ranks_share_memory ? std::min(bucket_bytes, kWorthAMeeting) : bucket_bytes;
}

std::string print_bucket_plan(const BucketPlan& plan) {
  nlohmann::ordered_json json = {{"bucket_bytes", plan.bucket_bytes}, {"buckets", nlohmann::ordered_json::array()}};
  for (const Bucket& bucket : plan.buckets)
    json["buckets"].push_back(
        {{"parameters", bucket.parameters}, {"counts", counts_of(bucket)}, {"lone", bucket.lone}});
  return json.dump();
}

BucketPlan parse_bucket_plan(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    BucketPlan plan = {.bucket_bytes = natural_of(json.at("bucket_bytes")), .buckets = {}};
    std::set<size_t> seen;
    for (const nlohmann::json& planned : json.at("buckets")) {
      const auto parameters = naturals_of(planned.at("parameters"));
      const auto counts = naturals_of(planned.at("counts"));
      if (parameters.empty() || parameters.size() != counts.size())
        throw DataError("a bucket plan with an empty bucket, or one without all counts");
      Bucket& bucket = plan.buckets.emplace_back();
      bucket.lone = planned.at("lone");
      for (size_t i = 0; i < counts.size(); ++i) {
        append(bucket, parameters[i], counts[i]);
        seen.insert(parameters[i]);
      }
    }
    size_t parameters = 0;
    for (const Bucket& bucket : plan.buckets) parameters += bucket.parameters.size();
    if (seen.size() != parameters || (parameters > 0 && *seen.rbegin() != parameters - 1))
      throw DataError("a bucket plan that does not name every parameter once");
    place_one_after_the_other(plan.buckets);
    return plan;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("not a bucket plan: {}", error.what()));
  }
}

std::vector<BucketTimes> bucket_times(const BucketPlan& plan, std::span<const double> ready_s,
                                      std::span<const double> bucket_s) {
  CHECK_EQ(bucket_s.size(), plan.buckets.size());
  std::vector<BucketTimes> times;
  double links_free_s = 0;
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    BucketTimes bucket;
    for (const size_t parameter : plan.buckets[i].parameters) {
      CHECK_LT(parameter, ready_s.size());
      bucket.ready_s = std::max(bucket.ready_s, ready_s[parameter]);
    }
    bucket.leaves_s = std::max(bucket.ready_s, links_free_s);
    bucket.done_s = links_free_s = bucket.leaves_s + bucket_s[i];
    times.push_back(bucket);
  }
  return times;
}

OverlapPrediction predict_overlap(const BucketPlan& plan, std::span<const double> ready_s,
                                  std::span<const double> bucket_s) {
  const std::vector<BucketTimes> times = bucket_times(plan, ready_s, bucket_s);
  OverlapPrediction prediction = {.communication_s = std::accumulate(bucket_s.begin(), bucket_s.end(), 0.0)};
  for (const double ready : ready_s) prediction.backward_s = std::max(prediction.backward_s, ready);
  if (!times.empty()) prediction.exposed_s = std::max(0.0, times.back().done_s - prediction.backward_s);
  return prediction;
}

std::vector<double> assumed_ready_s(std::span<const size_t> counts, double backward_s) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  std::vector<double> ready_s;
  size_t passed = 0;
  for (const size_t count : counts) {
    passed += count;
    ready_s.push_back(total > 0 ? backward_s * (static_cast<double>(passed) / total) : backward_s);
  }
  return ready_s;
}

double assumed_backward_s(std::span<const size_t> counts, const AllReduceSeconds& all_reduce_seconds) {
  return all_reduce_seconds(std::accumulate(counts.begin(), counts.end(), uint64_t{0}) * sizeof(float));
}

uint64_t choose_bucket_bytes(std::span<const size_t> counts, std::span<const double> ready_s,
                             const AllReduceSeconds& all_reduce_seconds) {
  CHECK_EQ(ready_s.size(), counts.size());
  struct Candidate {
    uint64_t bucket_bytes;
    OverlapPrediction prediction;
  };
  std::vector<Candidate> candidates;  // rising
  const auto consider = [&](uint64_t bucket_bytes) {
    const BucketPlan plan = plan_buckets(counts, bucket_bytes);
    candidates.push_back({bucket_bytes, predict_overlap(plan, ready_s, seconds_of(plan, all_reduce_seconds))});
  };
  for (uint64_t bytes = kSmallestBytes; bytes <= kLargestBytes; bytes *= 2) consider(bytes);
  consider(kOneBucket);

  const auto exposed = [](const Candidate& candidate) { return candidate.prediction.exposed_s; };
  const Candidate& best = *std::ranges::min_element(candidates, {}, exposed);
  const double step_s = best.prediction.backward_s + best.prediction.communication_s;
  const double enough = exposed(best) + kRounding * step_s;
  return std::ranges::find_if(candidates.rbegin(), candidates.rend(),
                              [&](const Candidate& candidate) { return exposed(candidate) <= enough; })
      ->bucket_bytes;
}

uint64_t choose_bucket_bytes(std::span<const size_t> counts, const AllReduceSeconds& all_reduce_seconds) {
  const double backward_s = assumed_backward_s(counts, all_reduce_seconds);
  return choose_bucket_bytes(counts, assumed_ready_s(counts, backward_s), all_reduce_seconds);
}

}  // namespace paceline
