#include "paceline/collectives/explain_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <string_view>

#include "paceline/core/bytes.h"
#include "paceline/core/check.h"
#include "paceline/core/number_text.h"

namespace paceline {
namespace {

constexpr double kGoodEfficiency = 0.95;
constexpr uint64_t kSmallBucketBytes = 1 << 20;  // choose_bucket_bytes() gives none below

double ms(double seconds) { return seconds * 1e3; }

std::string plural(size_t number, const std::string& noun) {
  return fmt::format("{} {}{}", with_commas(number), noun, number == 1 ? "" : "s");
}

std::string parameters_text(const StepOutline& step, const Bucket& bucket) {
  const std::string& first = step.names[bucket.parameters.front()];
  if (bucket.parameters.size() == 1) return first;
  return fmt::format("{} .. {}", first, step.names[bucket.parameters.back()]);
}

uint64_t sent_bytes(const StepOutline& step, uint64_t bytes) {
  return static_cast<uint64_t>(std::llround(static_cast<double>(bytes) / step.codec_ratio));
}

std::string head(const StepOutline& step) {
  const uint64_t elements = std::accumulate(step.counts.begin(), step.counts.end(), uint64_t{0});
  const uint64_t bytes = elements * sizeof(float);
  std::string text =
      fmt::format("{} on {}: {} of gradients, {} bytes, in {}", step.model, step.ranks, plural(elements, "element"),
                  with_commas(bytes), plural(step.plan.buckets.size(), "bucket"));
  if (step.plan.bucket_bytes != kOneBucket) text += fmt::format(" of about {}", print_bytes(step.plan.bucket_bytes));
  text += ".\n";
  if (step.codec != "none")
    text += fmt::format("Codec {}: {} bytes are sent, {:.3g} times fewer.\n", step.codec,
                        with_commas(sent_bytes(step, bytes)), step.codec_ratio);
  return text;
}

std::string assumptions(const StepOutline& step) {
  std::string text =
      step.backward_assumed
          ? fmt::format(
                "Assumed, as nothing is known: backward takes {:.3f} ms, as long as one all-reduce of it all.\n",
                ms(step.backward_s))
          : fmt::format("Backward takes {:.3f} ms.\n", ms(step.backward_s));
  if (!step.forward_s) text += "Assumed: forward takes half as long as backward.\n";
  if (step.no_overlap.empty() && step.ready_s.empty())
    text += "Assumed: a gradient is ready when backward has passed its share of the elements.\n";
  if (!step.no_overlap.empty()) text += fmt::format("Nothing is sent before backward is over: {}.\n", step.no_overlap);
  return text + step.links;
}

std::string table(const StepOutline& step, const StepPrediction& prediction) {
  size_t names = std::string_view("parameters").size(), algorithms = std::string_view("algorithm").size();
  for (size_t i = 0; i < step.buckets.size(); ++i) {
    names = std::max(names, parameters_text(step, step.plan.buckets[i]).size());
    algorithms = std::max(algorithms, step.buckets[i].algorithm.size());
  }
  std::string text = fmt::format("{:>6}  {:<{}}{:>14}  {:<{}}{:>14}{:>14}{:>14}\n", "bucket", "parameters", names,
                                 "bytes sent", "algorithm", algorithms, "predicted ms", "leaves at ms", "done at ms");
  for (size_t i = 0; i < step.buckets.size(); ++i) {
    const Bucket& bucket = step.plan.buckets[i];
    const BucketTimes& times = prediction.buckets[i];
    text += fmt::format("{:>6}  {:<{}}{:>14}  {:<{}}{:>14.3f}{:>14.3f}{:>14.3f}\n", i, parameters_text(step, bucket),
                        names, with_commas(sent_bytes(step, bucket.bytes())), step.buckets[i].algorithm, algorithms,
                        ms(step.buckets[i].seconds), ms(times.leaves_s), ms(times.done_s));
  }
  return text;
}

std::string totals(const StepOutline& step, const StepPrediction& prediction) {
  const OverlapPrediction& overlap = prediction.overlap;
  std::string text;
  text += fmt::format("communication {:>12.3f} ms in {}\n", ms(overlap.communication_s),
                      plural(step.buckets.size(), "all-reduce"));
  text += fmt::format("exposed       {:>12.3f} ms after the end of backward\n", ms(overlap.exposed_s));
  text += fmt::format("overlap       {:>12.1f} % of communication is hidden by backward\n",
                      100 * prediction.hidden_share());
  text += fmt::format("efficiency    {:>12.1f} %: {:.3f} ms of computing in a step of {:.3f} ms\n",
                      100 * prediction.efficiency(), ms(prediction.computing_s),
                      ms(prediction.computing_s + overlap.exposed_s));
  return text;
}

StepOutline with_backward(StepOutline step, double backward_s) {
  step.backward_s = backward_s;
  step.ready_s.clear();
  return step;
}

// The shortest backward with which the step is not poor.
double good_from_s(const StepOutline& step) {
  const auto poor = [&](double backward_s) {
    return predict_step(with_backward(step, backward_s)).efficiency() < kGoodEfficiency;
  };
  double above = std::max(step.backward_s, 1e-9), below = 0;
  while (poor(above)) above *= 2;
  for (int i = 0; i < 50; ++i) {
    const double middle = (below + above) / 2;
    (poor(middle) ? below : above) = middle;
  }
  return above;
}

std::string fewer_bytes(const StepOutline& step) {
  return step.codec == "none" ? "send fewer bytes (comm.codec = \"fp16\")"
                              : fmt::format("send fewer bytes than with comm.codec = \"{}\"", step.codec);
}

// What helps, as it would be said to somebody.
std::string remedy(const StepOutline& step, const StepPrediction& prediction) {
  const OverlapPrediction& overlap = prediction.overlap;
  if (!step.no_overlap.empty())
    return fmt::format("nothing is hidden by backward: {}, or compute more per step (a larger batch.local)",
                       fewer_bytes(step));
  const Bucket& last = step.plan.buckets.back();
  const bool last_can_shrink = last.parameters.size() > 1;
  if (step.plan.buckets.size() == 1 && last_can_shrink)
    return "all gradients leave when backward is over: let the first leave earlier with a smaller comm.bucket_bytes";
  if (overlap.communication_s > overlap.backward_s && step.plan.bucket_bytes < kSmallBucketBytes)
    return "communication takes longer than backward, in many small buckets: leave their size to the cost model "
           "(comm.bucket_bytes = 0)";
  if (overlap.communication_s > overlap.backward_s)
    return fmt::format("communication takes longer than backward: {}, or compute more per step (a larger batch.local)",
                       fewer_bytes(step));
  if (step.buckets.back().seconds < overlap.exposed_s / 2)
    return fmt::format(
        "buckets wait for each other, the links hardly keep up with backward: {}, or compute more per "
        "step (a larger batch.local)",
        fewer_bytes(step));
  if (last_can_shrink)
    return fmt::format(
        "most of what is exposed is the last bucket, which leaves when backward is over: make it smaller "
        "with a smaller comm.bucket_bytes, or {}",
        fewer_bytes(step));
  return fmt::format(
      "the last gradient is large and leaves when backward is over: {}, or compute more per step (a "
      "larger batch.local)",
      fewer_bytes(step));
}

std::string sentence(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text + ".";
}

}  // namespace

double StepPrediction::hidden_share() const {
  return overlap.communication_s > 0 ? 1 - std::min(1.0, overlap.exposed_s / overlap.communication_s) : 1;
}

double StepPrediction::efficiency() const {
  return computing_s + overlap.exposed_s > 0 ? computing_s / (computing_s + overlap.exposed_s) : 1;
}

StepPrediction predict_step(const StepOutline& step) {
  CHECK_EQ(step.names.size(), step.counts.size());
  CHECK_EQ(step.buckets.size(), step.plan.buckets.size());
  CHECK_TRUE(step.plan.fits(step.counts), "the bucket plan is for other parameters");
  const std::vector<double> ready_s = !step.no_overlap.empty()
                                          ? std::vector<double>(step.counts.size(), step.backward_s)
                                      : step.ready_s.empty() ? assumed_ready_s(step.counts, step.backward_s)
                                                             : step.ready_s;
  std::vector<double> bucket_s;
  for (const BucketCost& bucket : step.buckets) bucket_s.push_back(bucket.seconds);
  return {.buckets = bucket_times(step.plan, ready_s, bucket_s),
          .overlap = predict_overlap(step.plan, ready_s, bucket_s),
          .computing_s = step.backward_s + step.forward_s.value_or(step.backward_s / 2)};
}

std::string advise(const StepOutline& step) {
  const StepPrediction prediction = predict_step(step);
  if (!(prediction.overlap.communication_s > 0)) return "Nothing to change: nothing is sent.";
  if (step.backward_assumed) {
    const double good_s = good_from_s(step);
    const StepPrediction poor = predict_step(with_backward(step, good_s / 2));
    return fmt::format(
        "Efficiency is above {:.0f} % where backward takes more than {:.3f} ms; if it takes much less, {}.",
        100 * kGoodEfficiency, ms(good_s), remedy(step, poor));
  }
  if (prediction.efficiency() >= kGoodEfficiency)
    return fmt::format("Nothing to change: all that could be gained is {:.1f} % of a step.",
                       100 * (1 - prediction.efficiency()));
  return sentence(remedy(step, prediction));
}

std::string explain_step(const StepOutline& step) {
  const StepPrediction prediction = predict_step(step);
  return fmt::format("{}{}\n{}\n{}\n{}\n", head(step), assumptions(step), table(step, prediction),
                     totals(step, prediction), advise(step));
}

}  // namespace paceline
