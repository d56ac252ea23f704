// BucketPlan: which gradients travel together (tensor fusion), and what can be expected of it (overlap). Pure.
//
// Gradients are packed in backward order into buckets of about a given size; a bucket leaves when its last gradient is
// ready and the bucket before it is through. Small buckets leave early but each costs its latency; large ones use the
// links better but the last one, which leaves when backward is over, is waited for. choose_bucket_bytes() plays it
// through. Where even a copy counts (ranks that share memory), large gradients travel alone: they need not be moved
// next to others.
//
// The plan is fixed at the start and the same on every rank: sums in other buckets would have other bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace paceline {

inline constexpr uint64_t kOneBucket = std::numeric_limits<uint64_t>::max();  // as bucket_bytes: everything in one

struct Bucket {
  std::vector<size_t> parameters;  // indices in backward order, rising; never empty
  std::vector<size_t> offsets;     // where each begins, in elements of this bucket; without gaps
  size_t count = 0;                // elements
  bool lone = false;               // one large parameter, which stays where it is
  // Where the bucket begins when all but lone ones lie one after the other, in elements: a multiple of 64, so that it
  // is aligned to 64 bytes whatever the type of the elements, if their memory is.
  size_t begin = 0;

  uint64_t bytes() const { return count * sizeof(float); }
  bool operator==(const Bucket&) const = default;
};

struct BucketPlan {
  uint64_t bucket_bytes = 0;    // what was asked for
  std::vector<Bucket> buckets;  // in the order in which they leave

  size_t memory_count() const;                      // elements that all but lone ones take together
  bool fits(std::span<const size_t> counts) const;  // whether it was made for parameters of these counts
  bool operator==(const BucketPlan&) const = default;
};

// `counts`: elements (f32) of each parameter, in backward order. A bucket is complete when it has reached
// `bucket_bytes`, or when it is at least half full and the next parameter would take it beyond one and a half times
// that. A parameter is never split, so a larger one makes a larger bucket. The first bucket is complete with 1 MiB
// already, so that communication starts early. A parameter of `lone_bytes` or more is a bucket of its own, and those
// around it go on gathering. REQUIRES: bucket_bytes > 0
BucketPlan plan_buckets(std::span<const size_t> counts, uint64_t bucket_bytes, uint64_t lone_bytes = kOneBucket);

// For buckets of a chosen size: where ranks share memory, below 256 KiB a copy costs less than a meeting; elsewhere
// only what fills a bucket travels alone.
uint64_t chosen_lone_bytes(uint64_t bucket_bytes, bool ranks_share_memory);

std::string print_bucket_plan(const BucketPlan& plan);  // JSON
BucketPlan parse_bucket_plan(const std::string& text);  // throws DataError

// ---- what to expect -------------------------------------------------------------------------------------------------

struct BucketTimes {
  double ready_s = 0;   // since backward began: the last gradient is there
  double leaves_s = 0;  // and the bucket before is through
  double done_s = 0;
};

struct OverlapPrediction {
  double backward_s = 0;       // until the last gradient is ready
  double communication_s = 0;  // of all buckets
  double exposed_s = 0;        // from the end of backward until the last bucket is through
};

// `ready_s`: when each gradient is ready, in any order. `bucket_s`: what the all-reduce of each bucket takes.
std::vector<BucketTimes> bucket_times(const BucketPlan& plan, std::span<const double> ready_s,
                                      std::span<const double> bucket_s);
OverlapPrediction predict_overlap(const BucketPlan& plan, std::span<const double> ready_s,
                                  std::span<const double> bucket_s);

using AllReduceSeconds = std::function<double(uint64_t bytes)>;

// When gradients are ready, where nothing was measured: backward advances with the parameters that it has passed.
std::vector<double> assumed_ready_s(std::span<const size_t> counts, double backward_s);
// And where its time is not known either: as long as one all-reduce of all gradients. Much shorter or longer, and the
// plan hardly matters.
double assumed_backward_s(std::span<const size_t> counts, const AllReduceSeconds& all_reduce_seconds);

// The size with the least exposed time among 1, 2, 4 ... 64 MiB and kOneBucket; the larger of equal ones.
uint64_t choose_bucket_bytes(std::span<const size_t> counts, std::span<const double> ready_s,
                             const AllReduceSeconds& all_reduce_seconds);
uint64_t choose_bucket_bytes(std::span<const size_t> counts, const AllReduceSeconds& all_reduce_seconds);  // as assumed

}  // namespace paceline
