#include "paceline/collectives/bucket_plan.h"

#include <gmock/gmock.h>

#include <numeric>

#include "paceline/core/error.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Counts = std::vector<size_t>;

constexpr uint64_t kMiB = 1 << 20;
constexpr size_t kElementsPerMiB = kMiB / sizeof(float);

std::vector<std::vector<size_t>> parameters_of(const BucketPlan& plan) {
  std::vector<std::vector<size_t>> parameters;
  for (const Bucket& bucket : plan.buckets) parameters.push_back(bucket.parameters);
  return parameters;
}

// Sizes as in a network: many small ones among some that are up to a hundred thousand times as large.
Counts random_counts(uint64_t seed, size_t parameters) {
  const RandomKey key(seed);
  Counts counts;
  for (size_t i = 0; i < parameters; ++i) {
    const uint64_t bits = key.bits(i);
    counts.push_back((bits >> 8) % (size_t{1} << bits % 23));
  }
  return counts;
}

TEST(BucketPlan, EveryParameterOnceAndInOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Counts counts = random_counts(seed, 1 + seed * 7);
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, kMiB, 16 * kMiB, kOneBucket}) {
      const BucketPlan plan = plan_buckets(counts, bytes);
      size_t next = 0;
      for (const Bucket& bucket : plan.buckets) {
        ASSERT_EQ(bucket.offsets.size(), bucket.parameters.size());
        EXPECT_FALSE(bucket.parameters.empty());
        size_t offset = 0;
        for (size_t i = 0; i < bucket.parameters.size(); ++i) {
          EXPECT_EQ(bucket.parameters[i], next++);
          EXPECT_EQ(bucket.offsets[i], offset);
          offset += counts[bucket.parameters[i]];
        }
        EXPECT_EQ(bucket.count, offset);
      }
      EXPECT_EQ(next, counts.size());
      EXPECT_TRUE(plan.fits(counts));
    }
  }
}

TEST(BucketPlan, BucketsAreAlignedAndDoNotOverlap) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const BucketPlan plan = plan_buckets(random_counts(seed, 60), 4096);
    size_t end = 0;
    for (const Bucket& bucket : plan.buckets) {
      EXPECT_EQ(bucket.begin % 64, 0u);
      EXPECT_GE(bucket.begin, end);
      EXPECT_LT(bucket.begin, end + 64);
      end = bucket.begin + bucket.count;
    }
    EXPECT_EQ(plan.memory_count(), end);
  }
}

TEST(BucketPlan, BucketsHaveAboutTheSizeAskedFor) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const BucketPlan plan = plan_buckets(random_counts(seed, 100), 4 * kMiB);
    for (size_t i = 1; i < plan.buckets.size(); ++i) {
      const Bucket& bucket = plan.buckets[i];
      if (i + 1 < plan.buckets.size()) {
        EXPECT_GE(bucket.bytes(), 2 * kMiB);
      }
      const uint64_t without_last = bucket.offsets.back() * sizeof(float);
      EXPECT_LT(without_last, 4 * kMiB);
      if (bucket.bytes() > 6 * kMiB) {
        EXPECT_LT(without_last, 2 * kMiB);
      }
    }
  }
}

TEST(BucketPlan, TheFirstBucketIsSmallSoThatItLeavesEarly) {
  const Counts quarters(40, kElementsPerMiB / 4);
  EXPECT_EQ(plan_buckets(quarters, 8 * kMiB).buckets[0].bytes(), kMiB);
  EXPECT_EQ(plan_buckets(quarters, 8 * kMiB).buckets[1].bytes(), 8 * kMiB);
  EXPECT_EQ(plan_buckets(quarters, kMiB / 2).buckets[0].bytes(), kMiB / 2);
}

TEST(BucketPlan, EverythingInOneIsOne) {
  const Counts quarters(40, kElementsPerMiB / 4);
  EXPECT_EQ(plan_buckets(quarters, kOneBucket).buckets.size(), 1u);
  EXPECT_EQ(plan_buckets(quarters, kOneBucket).buckets[0].bytes(), 10 * kMiB);
}

TEST(BucketPlan, AHugeParameterIsNotSplitNorWaitedForByAHalfFullBucket) {
  constexpr size_t kHuge = 100 * kElementsPerMiB, kOne = kElementsPerMiB;
  EXPECT_EQ(plan_buckets(Counts{kHuge}, kMiB).buckets[0].count, kHuge);
  // The first bucket holds parameter 0; then one, or two MiB of four, before the huge one.
  EXPECT_THAT(parameters_of(plan_buckets(Counts{kOne, kOne, kHuge, kOne}, 4 * kMiB)),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2), ElementsAre(3)));
  EXPECT_THAT(parameters_of(plan_buckets(Counts{kOne, kOne, kOne, kHuge, kOne}, 4 * kMiB)),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2), ElementsAre(3), ElementsAre(4)));
}

TEST(BucketPlan, NoParametersAreNoBuckets) {
  const BucketPlan plan = plan_buckets({}, kMiB);
  EXPECT_TRUE(plan.buckets.empty());
  EXPECT_EQ(plan.memory_count(), 0u);
  EXPECT_TRUE(plan.fits({}));
  EXPECT_EQ(parse_bucket_plan(print_bucket_plan(plan)), plan);
  EXPECT_EQ(predict_overlap(plan, {}, {}).exposed_s, 0);
}

TEST(BucketPlan, ParametersWithoutElementsAreKept) {
  const BucketPlan plan = plan_buckets(Counts{0, 0}, 1);
  EXPECT_THAT(parameters_of(plan), ElementsAre(ElementsAre(0, 1)));
  EXPECT_EQ(plan.buckets[0].count, 0u);
}

TEST(BucketPlan, KnowsForWhichParametersItWasMade) {
  const BucketPlan plan = plan_buckets(Counts{5, 6, 7}, 40);
  EXPECT_FALSE(plan.fits(Counts{5, 6}));
  EXPECT_FALSE(plan.fits(Counts{5, 6, 8}));
  EXPECT_FALSE(plan.fits(Counts{6, 5, 7}));
  EXPECT_FALSE(plan.fits(Counts{5, 6, 7, 0}));
}

TEST(BucketPlan, ComesBackFromItsTextAsItWas) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (const uint64_t bytes : {uint64_t{1}, kMiB, kOneBucket}) {
      const BucketPlan plan = plan_buckets(random_counts(seed, 50), bytes);
      EXPECT_EQ(parse_bucket_plan(print_bucket_plan(plan)), plan);
    }
  }
  EXPECT_EQ(print_bucket_plan(plan_buckets(Counts{5, 6, 7}, 40)),
            R"({"bucket_bytes":40,"buckets":[{"parameters":[0,1],"counts":[5,6],"lone":false},)"
            R"({"parameters":[2],"counts":[7],"lone":false}]})");
}

TEST(BucketPlan, RefusesATextThatIsNone) {
  const auto with_buckets = [](const std::string& buckets) {
    return R"({"bucket_bytes":40,"buckets":[)" + buckets + "]}";
  };
  EXPECT_EQ(parse_bucket_plan(with_buckets(R"({"parameters":[0],"counts":[1],"lone":false})")).buckets.size(), 1u);
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"), std::string(R"({"bucket_bytes":40})"),
        with_buckets(R"({"parameters":[0],"counts":["a"],"lone":false})"),
        with_buckets(R"({"parameters":[],"counts":[],"lone":false})"),
        with_buckets(R"({"parameters":[0,1],"counts":[1],"lone":false})"),
        with_buckets(R"({"parameters":[1],"counts":[1],"lone":false})"),
        with_buckets(R"({"parameters":[0,0],"counts":[1,1],"lone":false})")}) {
    EXPECT_THROW(parse_bucket_plan(text), DataError) << text;
  }
}

TEST(BucketPlan, LargeParametersTravelAlone) {
  constexpr size_t kOne = kElementsPerMiB, kSmall = kElementsPerMiB / 16;
  const Counts counts = {kSmall, kOne, kSmall, 8 * kOne, kSmall};
  const BucketPlan plan = plan_buckets(counts, 4 * kMiB, kMiB);
  EXPECT_THAT(parameters_of(plan), ElementsAre(ElementsAre(1), ElementsAre(3), ElementsAre(0, 2, 4)));
  EXPECT_THAT(plan.buckets[2].offsets, ElementsAre(0, kSmall, 2 * kSmall));
  EXPECT_EQ(plan.memory_count(), 3 * kSmall);
  EXPECT_TRUE(plan.fits(counts));
  EXPECT_FALSE(plan.fits(Counts{kOne, kSmall, kSmall, 8 * kOne, kSmall}));
  EXPECT_EQ(parse_bucket_plan(print_bucket_plan(plan)), plan);
  // What is complete leaves before a large one that comes after it.
  EXPECT_THAT(parameters_of(plan_buckets(Counts{kOne / 2, kOne / 2, kOne, kSmall}, kMiB, kMiB)),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3)));
}

// ---- overlap ------------------------------------------------------------------------------------------------------

// The pipeline played through tick by tick: at every tick the link works on a bucket that may leave, if there is one.
std::vector<BucketTimes> ticked(const BucketPlan& plan, const std::vector<double>& ready_s,
                                const std::vector<double>& bucket_s) {
  std::vector<BucketTimes> times(plan.buckets.size());
  size_t next = 0;
  double free_at = 0;
  for (int tick = 0; next < times.size(); ++tick) {
    while (next < times.size()) {
      const bool ready = std::ranges::all_of(plan.buckets[next].parameters,
                                             [&](size_t parameter) { return ready_s[parameter] <= tick; });
      if (!ready || free_at > tick) break;
      times[next].leaves_s = tick;
      free_at = times[next].done_s = tick + bucket_s[next];
      ++next;
    }
  }
  return times;
}

TEST(Overlap, AgreesWithPlayingItThrough) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomKey key = RandomKey(seed).with("overlap");
    const Counts counts(1 + key.bits(0) % 8, 10);
    const BucketPlan plan = plan_buckets(counts, 40 * (1 + key.bits(1) % 4));
    std::vector<double> ready_s, bucket_s;
    for (size_t i = 0; i < counts.size(); ++i) ready_s.push_back(static_cast<double>(key.bits(100 + i) % 12));
    for (size_t i = 0; i < plan.buckets.size(); ++i) bucket_s.push_back(static_cast<double>(key.bits(200 + i) % 6));

    const std::vector<BucketTimes> expected = ticked(plan, ready_s, bucket_s);
    const std::vector<BucketTimes> times = bucket_times(plan, ready_s, bucket_s);
    ASSERT_EQ(times.size(), expected.size());
    for (size_t i = 0; i < times.size(); ++i) {
      EXPECT_EQ(times[i].leaves_s, expected[i].leaves_s);
      EXPECT_EQ(times[i].done_s, expected[i].done_s);
      EXPECT_LE(times[i].ready_s, times[i].leaves_s);
    }
    const OverlapPrediction prediction = predict_overlap(plan, ready_s, bucket_s);
    EXPECT_EQ(prediction.backward_s, std::ranges::max(ready_s));
    EXPECT_EQ(prediction.communication_s, std::accumulate(bucket_s.begin(), bucket_s.end(), 0.0));
    EXPECT_EQ(prediction.exposed_s, std::max(0.0, expected.back().done_s - prediction.backward_s));
  }
}

TEST(Overlap, ABucketWaitsForItsGradientsAndForTheOneBefore) {
  const BucketPlan plan = plan_buckets(Counts{1, 1, 1}, 4);
  const std::vector<BucketTimes> times = bucket_times(plan, std::vector<double>{1, 2, 9}, std::vector<double>{5, 1, 2});
  EXPECT_EQ(times[0].leaves_s, 1);
  EXPECT_EQ(times[1].ready_s, 2);
  EXPECT_EQ(times[1].leaves_s, 6);  // bucket 0 is in the way
  EXPECT_EQ(times[2].leaves_s, 9);  // its gradient is not there
  EXPECT_EQ(times[2].done_s, 11);
}

TEST(Overlap, WithoutKnowledgeGradientsComeWithTheirParameters) {
  EXPECT_THAT(assumed_ready_s(Counts{1, 0, 2, 5}, 16), ElementsAre(2, 2, 6, 16));
  EXPECT_THAT(assumed_ready_s(Counts{0, 0}, 16), ElementsAre(16, 16));
  EXPECT_TRUE(assumed_ready_s({}, 16).empty());
  EXPECT_EQ(assumed_backward_s(Counts{1, 0, 2, 5}, [](uint64_t bytes) { return static_cast<double>(bytes); }), 32);
}

// ---- choosing -----------------------------------------------------------------------------------------------------

AllReduceSeconds link(double latency_s, double bytes_per_second) {
  return [=](uint64_t bytes) { return latency_s + static_cast<double>(bytes) / bytes_per_second; };
}

double exposed_s(const Counts& counts, const std::vector<double>& ready_s, const AllReduceSeconds& seconds,
                 uint64_t bucket_bytes) {
  const BucketPlan plan = plan_buckets(counts, bucket_bytes);
  std::vector<double> bucket_s;
  for (const Bucket& bucket : plan.buckets) bucket_s.push_back(seconds(bucket.bytes()));
  return predict_overlap(plan, ready_s, bucket_s).exposed_s;
}

TEST(ChooseBucketBytes, NoOtherSizeExposesLess) {
  bool other_than_one_bucket = false;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Counts counts = random_counts(seed, 80);
    for (const double latency_s : {0.0, 1e-5, 1e-3}) {
      const AllReduceSeconds seconds = link(latency_s, 1e9);
      for (const double backward_s : {0.001, 0.03, 0.3}) {
        const std::vector<double> ready_s = assumed_ready_s(counts, backward_s);
        const uint64_t chosen = choose_bucket_bytes(counts, ready_s, seconds);
        const double exposed = exposed_s(counts, ready_s, seconds, chosen);
        other_than_one_bucket |= chosen != kOneBucket;
        for (const uint64_t mib : {1, 2, 4, 8, 16, 32, 64}) {
          EXPECT_LE(exposed, exposed_s(counts, ready_s, seconds, mib * kMiB) + 1e-8);
          if (mib * kMiB > chosen) {
            EXPECT_LT(exposed, exposed_s(counts, ready_s, seconds, mib * kMiB));
          }
        }
        EXPECT_LE(exposed, exposed_s(counts, ready_s, seconds, kOneBucket) + 1e-8);
      }
    }
  }
  EXPECT_TRUE(other_than_one_bucket);
}

TEST(ChooseBucketBytes, SmallOnesWhereLatencyIsNothingAndAllInOneWhereItIsAll) {
  const Counts counts(129, kElementsPerMiB);  // after the first bucket, 128 MiB that every size divides
  EXPECT_EQ(choose_bucket_bytes(counts, assumed_ready_s(counts, 1.0), link(0, 1e9)), kMiB);
  EXPECT_EQ(choose_bucket_bytes(counts, assumed_ready_s(counts, 1.0), link(10, 1e9)), kOneBucket);
}

TEST(ChooseBucketBytes, InBetweenWhereBothCount) {
  const Counts counts(400, kElementsPerMiB / 4);
  const uint64_t chosen = choose_bucket_bytes(counts, link(1e-3, 1e9));
  EXPECT_GT(chosen, kMiB);
  EXPECT_LT(chosen, 64 * kMiB);
}

TEST(ChooseBucketBytes, TiesGoToTheLarger) {
  const Counts counts(100, kElementsPerMiB);
  EXPECT_EQ(choose_bucket_bytes(counts, [](uint64_t) { return 0.0; }), kOneBucket);  // one rank
  // Backward is over at once: without latency no plan is better than another, but for the last bits of the sums.
  EXPECT_EQ(choose_bucket_bytes(counts, assumed_ready_s(counts, 0), link(0, 0.7e9)), kOneBucket);
}

TEST(ChooseBucketBytes, OneHugeParameterOrNone) {
  EXPECT_EQ(choose_bucket_bytes(Counts{1000 * kElementsPerMiB}, link(1e-5, 1e9)), kOneBucket);
  EXPECT_EQ(choose_bucket_bytes({}, link(1e-5, 1e9)), kOneBucket);
}

}  // namespace
}  // namespace paceline
