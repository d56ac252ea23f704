#include "paceline/collectives/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "paceline/core/random.h"

namespace paceline {
namespace {

constexpr int kMostCalls = 1 << 20;
constexpr double kFewCalls = 10;
constexpr double kLongCall = 10e-3;  // seconds: what happens around such a call does not matter

double seconds_of(const std::function<void()>& run, int calls) {
  const auto begin = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The largest over all ranks, place by place.
void maximum_over_ranks(Group& group, std::vector<double>& values) {
  std::vector<double> all(values.size() * static_cast<size_t>(group.size()));
  group.all_gather(view(values), view(all));
  for (size_t i = 0; i < all.size(); ++i) values[i % values.size()] = std::max(values[i % values.size()], all[i]);
}

// ---- how many calls, how many rounds --------------------------------------------------------------------------------

struct Calibration {
  int calls = 1;
  double call_s = 0;
};

// Another one in each round, the same on every rank: who comes after whom changes what is in the caches.
std::vector<size_t> order_of_round(int round, size_t contenders) {
  const RandomKey key = RandomKey(5).with(static_cast<uint64_t>(round));
  std::vector<size_t> order(contenders);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t place) { return key.with(place).value(); });
  return order;
}

// Seconds of `calls` calls, as this rank sees them. The call before brings the ranks together and the buffer into the
// caches; during the one after, ranks that are done do not take the processor, waiting, from those that are not.
double timed_batch(Group& coordination, const Contender& contender, int calls, double call_s) {
  const bool padded = call_s < kLongCall;
  coordination.barrier();
  if (padded) contender.run();
  const double seconds = seconds_of(contender.run, calls);
  if (padded) contender.run();
  return seconds;
}

// Of the slowest rank: the same number on every rank, so that all decide alike.
double slowest_batch(Group& coordination, const Contender& contender, int calls, double call_s) {
  std::vector<double> seconds = {timed_batch(coordination, contender, calls, call_s)};
  maximum_over_ranks(coordination, seconds);
  return std::max(seconds[0], 1e-9);
}

// Batches of more and more calls until one is long enough to tell; the warm-up at the same time.
Calibration calibrate(Group& coordination, const Contender& contender, double batch_s) {
  double call_s = slowest_batch(coordination, contender, 1, kLongCall);  // memory is found here, not in a timed call
  for (int calls = 1;;) {
    double seconds = slowest_batch(coordination, contender, calls, call_s);
    if (seconds >= batch_s / 2 && seconds < 20 * batch_s)  // or was it only disturbed?
      seconds = std::min(seconds, slowest_batch(coordination, contender, calls, call_s));
    call_s = seconds / calls;
    const double fewest = call_s < kLongCall ? kFewCalls : 1;  // one alone says little where threads sleep and wake
    const int wanted = static_cast<int>(std::clamp(std::round(batch_s / call_s), fewest, 1.0 * kMostCalls));
    if (seconds >= batch_s / 2 || calls == kMostCalls) return {wanted, call_s};
    calls = std::min(wanted, 10 * calls);
  }
}

// Rounds that each contender takes part in.
std::vector<int> plan_rounds(const std::vector<Calibration>& contenders, const MeasureOptions& options) {
  const double quickest = std::ranges::min(contenders, {}, &Calibration::call_s).call_s;
  const auto hopeless = [&](const Calibration& contender) { return contender.call_s > options.hopeless * quickest; };
  double round_s = 0;
  for (const Calibration& contender : contenders)
    if (!hopeless(contender)) round_s += contender.calls * contender.call_s;
  const int fewest = std::min(options.fewest_trials, options.trials);
  const auto affordable = static_cast<int>(std::min(options.budget_s / round_s, 1.0 * options.trials));
  std::vector<int> planned;
  for (const Calibration& contender : contenders)
    planned.push_back(hopeless(contender) ? fewest : std::max(affordable, fewest));
  return planned;
}

Timing timing_of(std::vector<double> seconds, int calls) {
  std::ranges::sort(seconds);
  return {quantile(seconds, 0.5), quantile(seconds, 0.25), quantile(seconds, 0.75), static_cast<int>(seconds.size()),
          calls};
}

// ---- known numbers --------------------------------------------------------------------------------------------------

// Buffers repeat after so many elements: a prime, so that no chunk begins where another does.
constexpr size_t kPeriod = 4099;

std::vector<float> known_numbers(int rank) {
  const RandomKey key = RandomKey(4).with(static_cast<uint64_t>(rank));
  std::vector<float> numbers(kPeriod);
  for (size_t i = 0; i < kPeriod; ++i) numbers[i] = static_cast<float>(key.uniform(i) - 0.5);
  return numbers;
}

}  // namespace

double quantile(std::span<const double> sorted, double part) {
  CHECK_GT(sorted.size(), 0u);
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<Timing> time_interleaved(Group& coordination, std::span<const Contender> contenders,
                                     const MeasureOptions& options) {
  CHECK_GE(options.trials, 1);
  if (contenders.empty()) return {};
  std::vector<Calibration> calibrations;
  for (const Contender& contender : contenders)
    calibrations.push_back(calibrate(coordination, contender, options.batch_s));
  const std::vector<int> rounds = plan_rounds(calibrations, options);

  std::vector<std::vector<double>> seconds(contenders.size());
  for (int round = 0; round < std::ranges::max(rounds); ++round) {
    for (const size_t place : order_of_round(round, contenders.size())) {
      if (round < rounds[place])
        seconds[place].push_back(
            timed_batch(coordination, contenders[place], calibrations[place].calls, calibrations[place].call_s) /
            calibrations[place].calls);
    }
  }

  std::vector<Timing> timings;
  for (size_t place = 0; place < contenders.size(); ++place) {
    maximum_over_ranks(coordination, seconds[place]);
    timings.push_back(timing_of(seconds[place], calibrations[place].calls));
  }
  return timings;
}

double largest_error(Group& coordination, const Contender& contender) {
  std::vector<double> sums(kPeriod), magnitudes(kPeriod);
  for (int rank = 0; rank < coordination.size(); ++rank) {
    const std::vector<float> numbers = known_numbers(rank);
    for (size_t i = 0; i < kPeriod; ++i) {
      sums[i] += double{numbers[i]};
      magnitudes[i] += std::abs(double{numbers[i]});
    }
  }
  const std::span<float> data = contender.buffer.as<float>();
  const std::vector<float> mine = known_numbers(coordination.rank());
  for (size_t i = 0; i < data.size(); ++i) data[i] = mine[i % kPeriod];
  contender.run();

  std::vector<double> largest = {0};
  for (size_t i = 0; i < data.size(); ++i) {
    const double error = std::abs(double{data[i]} - sums[i % kPeriod]) / magnitudes[i % kPeriod];
    largest[0] = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest[0], error);
  }
  std::ranges::fill(data, 0.0f);
  maximum_over_ranks(coordination, largest);
  return largest[0];
}

// p-1 additions, each rounded by half of f32's epsilon of a partial sum that is no larger than the magnitudes.
double largest_rounding(int ranks) { return ranks * 0.5 * std::numeric_limits<float>::epsilon(); }

}  // namespace paceline
