#include "paceline/codecs/codec_cost.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

constexpr double kMeasuringSeconds = 3e-3;
constexpr int kFewestRounds = 3;

// Like gradients: normal, and no two alike (which would be another case for topk). Random numbers take longer than
// codecs, so that a few serve again and again, a little larger each time.
std::vector<float> like_gradients(size_t count) {
  constexpr size_t kPattern = 4096;
  std::vector<float> values(count);
  for (size_t i = 0; i < std::min(count, kPattern); ++i) values[i] = 1e-2f * RandomKey(1).normal_pair(i)[0];
  for (size_t i = kPattern; i < count; ++i) values[i] = values[i - kPattern] * (1 + 1e-4f);
  return values;
}

std::string milliseconds(double seconds) {
  const double ms = seconds * 1e3;
  return ms >= 10 ? fmt::format("{:.0f}", ms) : ms >= 1 ? fmt::format("{:.1f}", ms) : fmt::format("{:.2g}", ms);
}

}  // namespace

double measured_seconds_per_byte(const Codec& codec, size_t count) {
  CHECK_GT(count, 0u);
  const std::vector<float> values = like_gradients(count);
  std::vector<float> lost(codec.lossy() ? count : 0), decoded(count);
  std::vector<std::byte> wire(codec.most_bytes(count));
  const SteadyClock clock;
  double best_s = std::numeric_limits<double>::max(), total_s = 0;
  for (int round = 0; round < kFewestRounds || total_s < kMeasuringSeconds; ++round) {
    const int64_t begin_ns = clock.now_ns();
    const size_t bytes = codec.encode(values, wire, lost);
    codec.decode(std::span(wire).first(bytes), decoded);
    const double seconds = seconds_between(begin_ns, clock.now_ns());
    best_s = std::min(best_s, seconds);
    total_s += seconds;
  }
  return best_s / static_cast<double>(count * sizeof(float));
}

CodecVerdict judge_codec(const Codec& codec, const CodecSetting& setting) {
  const auto& [codec_s_per_byte, link_bytes_per_s, ranks, bytes] = setting;
  const auto count = static_cast<size_t>(bytes / sizeof(float));
  // Every rank sends all chunks but its own, and then the sums that it is given; a codec may pack the two differently.
  const double sent = codec.fixed_length() ? static_cast<double>(codec.most_bytes(count)) : bytes / codec.ratio();
  const bool elementwise = codec.wire_dtype().has_value();
  const double summed = elementwise ? sent : static_cast<double>(codec.most_sum_bytes(count, ranks));
  const double share = (ranks - 1.0) / ranks;
  // Elementwise, everything is packed once and unpacked once. Else sums are packed again, and everything is unpacked
  // once more; to pack and to unpack are taken to cost the same.
  const double packing_s = bytes * codec_s_per_byte * (elementwise ? 1 : (3 + 1.0 / ranks) / 2);

  CodecVerdict verdict;
  verdict.plain_s = 2 * share * bytes / link_bytes_per_s;
  verdict.packed_s = share * (sent + summed) / link_bytes_per_s + packing_s;
  verdict.pays = verdict.packed_s < verdict.plain_s;
  if (ranks == 1) {
    verdict.text = fmt::format("{} does not pay: one rank sends nothing", codec.name());
  } else if (!codec.fixed_length()) {
    verdict.text = fmt::format("{} promises nothing: how much it sends depends on the gradients", codec.name());
  } else {
    const double fewer = 2 * bytes / std::max(1.0, sent + summed);
    verdict.text = fmt::format("{} {} on this link: {:.1f}x fewer bytes save {} ms of {}, packing costs {} ms",
                               codec.name(), verdict.pays ? "pays" : "does not pay", fewer,
                               milliseconds(verdict.plain_s - (verdict.packed_s - packing_s)),
                               milliseconds(verdict.plain_s), milliseconds(packing_s));
  }
  return verdict;
}

}  // namespace paceline
