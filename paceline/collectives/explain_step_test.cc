#include "paceline/collectives/explain_step.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr size_t kElementsPerMiB = (1 << 20) / sizeof(float);

// Four parameters of 1, 2, 2 and 3 MiB; each MiB takes `ms_per_mib` on the links. Buckets: fc, conv3 + conv2, conv1.
StepOutline outline(double backward_ms, double ms_per_mib, uint64_t bucket_bytes = 4 << 20) {
  StepOutline step = {.model = "small", .ranks = "4 ranks on one host (shm)"};
  step.names = {"fc.weight", "conv3.weight", "conv2.weight", "conv1.weight"};
  step.counts = {kElementsPerMiB, 2 * kElementsPerMiB, 2 * kElementsPerMiB, 3 * kElementsPerMiB};
  step.plan = plan_buckets(step.counts, bucket_bytes);
  for (const Bucket& bucket : step.plan.buckets)
    step.buckets.push_back({"ring", static_cast<double>(bucket.bytes()) / (1 << 20) * ms_per_mib * 1e-3});
  step.backward_s = backward_ms * 1e-3;
  return step;
}

TEST(ExplainStep, SaysItAll) {
  EXPECT_EQ(explain_step(outline(80, 2)),
            "small on 4 ranks on one host (shm): 2,097,152 elements of gradients, 8,388,608 bytes, in 3 buckets of "
            "about 4MiB.\n"
            "Backward takes 80.000 ms.\n"
            "Assumed: forward takes half as long as backward.\n"
            "Assumed: a gradient is ready when backward has passed its share of the elements.\n"
            "\n"
            "bucket  parameters                      bytes sent  algorithm  predicted ms  leaves at ms    done at ms\n"
            "     0  fc.weight                        1,048,576  ring              2.000        10.000        12.000\n"
            "     1  conv3.weight .. conv2.weight     4,194,304  ring              8.000        50.000        58.000\n"
            "     2  conv1.weight                     3,145,728  ring              6.000        80.000        86.000\n"
            "\n"
            "communication       16.000 ms in 3 all-reduces\n"
            "exposed              6.000 ms after the end of backward\n"
            "overlap               62.5 % of communication is hidden by backward\n"
            "efficiency            95.2 %: 120.000 ms of computing in a step of 126.000 ms\n"
            "\n"
            "Nothing to change: all that could be gained is 4.8 % of a step.\n");
}

TEST(ExplainStep, WhatIsKnownIsNotAssumed) {
  StepOutline step = outline(80, 2);
  step.forward_s = 0.02;
  step.ready_s = {0.06, 0.065, 0.07, 0.08};
  const std::string text = explain_step(step);
  EXPECT_THAT(text, Not(HasSubstr("Assumed")));
  EXPECT_THAT(text, HasSubstr("60.000        62.000"));
  EXPECT_THAT(text, HasSubstr("100.000 ms of computing in a step of 106.000 ms"));
}

TEST(ExplainStep, WithoutOverlapAllLeaveAfterBackward) {
  StepOutline step = outline(80, 2);
  step.no_overlap = "every core computes";
  step.links = "Assumed within a host: a wire\n";
  const std::string text = explain_step(step);
  EXPECT_THAT(
      text,
      HasSubstr("Nothing is sent before backward is over: every core computes.\nAssumed within a host: a wire\n"));
  EXPECT_THAT(text, Not(HasSubstr("a gradient is ready")));
  EXPECT_THAT(text, HasSubstr("exposed             16.000 ms after the end of backward\n"));
  EXPECT_THAT(text, HasSubstr("overlap                0.0 % of communication is hidden by backward\n"));
  EXPECT_THAT(text, HasSubstr("Nothing is hidden by backward: send fewer bytes"));
}

TEST(ExplainStep, AnUnknownBackwardIsSaidToBeAssumed) {
  StepOutline step = outline(16, 2);
  step.backward_assumed = true;
  const std::string text = explain_step(step);
  EXPECT_THAT(text, HasSubstr("Assumed, as nothing is known: backward takes 16.000 ms, as long as one all-reduce"));
  // The last bucket's 6 ms stay exposed: 1.5 b / (1.5 b + 6) = 0.95 at b = 76.
  EXPECT_THAT(text,
              HasSubstr("Efficiency is above 95 % where backward takes more than 76.000 ms; if it takes much less"));
}

TEST(ExplainStep, ACodecIsNamedWithWhatItSends) {
  StepOutline step = outline(80, 2);
  EXPECT_THAT(explain_step(step), Not(HasSubstr("Codec")));
  step.codec = "fp16";
  step.codec_ratio = 2;
  const std::string text = explain_step(step);
  EXPECT_THAT(text, HasSubstr("Codec fp16: 4,194,304 bytes are sent, 2 times fewer.\n"));
  EXPECT_THAT(text, HasSubstr(" 524,288  ring"));
}

TEST(ExplainStep, PredictsOverlapAndEfficiency) {
  const StepPrediction prediction = predict_step(outline(80, 2));
  EXPECT_NEAR(prediction.overlap.exposed_s, 0.006, 1e-12);
  EXPECT_NEAR(prediction.hidden_share(), 0.625, 1e-12);
  EXPECT_NEAR(prediction.efficiency(), 0.12 / 0.126, 1e-12);
  EXPECT_EQ(predict_step(outline(80, 0)).hidden_share(), 1);
  EXPECT_EQ(predict_step(outline(0, 0)).efficiency(), 1);
  EXPECT_DOUBLE_EQ(predict_step(outline(0, 2)).efficiency(), 0);
}

TEST(Advise, ChangesNothingThatIsGood) {
  EXPECT_THAT(advise(outline(800, 2)), StartsWith("Nothing to change: all that could be gained is 0.5 %"));
  EXPECT_EQ(advise(outline(80, 0)), "Nothing to change: nothing is sent.");
}

TEST(Advise, OneBucketForAllIsTooLate) {
  EXPECT_THAT(advise(outline(80, 2, kOneBucket)),
              StartsWith("All gradients leave when backward is over: let the first leave earlier"));
}

TEST(Advise, MoreCommunicationThanBackwardNeedsFewerBytesOrMoreComputing) {
  EXPECT_EQ(advise(outline(8, 2)),
            "Communication takes longer than backward: send fewer bytes (comm.codec = \"fp16\"), or compute more per "
            "step (a larger batch.local).");
  StepOutline packed = outline(8, 2);
  packed.codec = "int8";
  EXPECT_THAT(advise(packed), HasSubstr("send fewer bytes than with comm.codec = \"int8\", or"));
  EXPECT_THAT(advise(outline(8, 2, 1 << 10)), HasSubstr("in many small buckets"));
}

TEST(Advise, ALargeLastBucketShallBeSmaller) {
  StepOutline step = outline(40, 2);  // its last bucket is a single parameter
  EXPECT_THAT(advise(step), StartsWith("The last gradient is large"));
  step.names.push_back("conv0.weight");
  step.counts.push_back(1);
  step.plan = plan_buckets(step.counts, 4 << 20);
  EXPECT_THAT(advise(step), StartsWith("Most of what is exposed is the last bucket"));
}

TEST(Advise, BucketsThatWaitForEachOtherNeedFewerBytes) {
  StepOutline step = outline(17, 2);
  step.buckets[1].seconds += step.buckets[2].seconds - 0.001;  // 13 ms before the last bucket, and 1 ms for that
  step.buckets[2].seconds = 0.001;
  EXPECT_THAT(advise(step), StartsWith("Buckets wait for each other, the links hardly keep up with backward: send"));
}

TEST(ExplainStep, AModelWithoutParametersIsNoTrouble) {
  const StepOutline nothing = {.model = "nothing", .ranks = "1 rank", .plan = plan_buckets({}, kOneBucket)};
  EXPECT_THAT(explain_step(nothing), HasSubstr("0 elements of gradients, 0 bytes, in 0 buckets.\n"));
}

TEST(ExplainStep, RefusesAPlanForOtherParameters) {
  StepOutline step = outline(80, 2);
  step.counts[1] += 1;
  EXPECT_THROW(explain_step(step), InternalError);
}

}  // namespace
}  // namespace paceline
