// Batch normalisation on a CPU: sixteen channels are a vector. Chunks of rows are shared out; each sums some rows in
// f32 and those sums in f64, in a fixed order: bits do not depend on the threads, and precision not on the rows.
#include "paceline/kernels/batch_norm.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "paceline/core/half.h"
#include "paceline/kernels/dispatch.h"

#define PACELINE_INLINE inline __attribute__((always_inline))

namespace paceline {
namespace {

constexpr int64_t kVectorLanes = 16;
constexpr int64_t kSummedRows = 32;          // that are summed in f32
constexpr int64_t kChunkElements = 1 << 16;  // about so many are one thread's at a time
using Vector = float __attribute__((vector_size(sizeof(float) * kVectorLanes)));
using WordVector = uint32_t __attribute__((vector_size(sizeof(uint32_t) * kVectorLanes)));
using HalfVector = uint16_t __attribute__((vector_size(sizeof(uint16_t) * kVectorLanes)));

PACELINE_INLINE void load_vector(Vector& to, const float* from) { std::memcpy(&to, from, sizeof to); }

PACELINE_INLINE void load_vector(Vector& to, const uint16_t* from) {
  HalfVector halves;
  std::memcpy(&halves, from, sizeof halves);
  const WordVector bits = __builtin_convertvector(halves, WordVector) << 16;
  std::memcpy(&to, &bits, sizeof to);
}

PACELINE_INLINE void store_vector(float* to, const Vector& from) { std::memcpy(to, &from, sizeof from); }

PACELINE_INLINE void store_vector(uint16_t* to, const Vector& from) {  // as bf16_from_float
  WordVector bits;
  std::memcpy(&bits, &from, sizeof bits);
  const WordVector rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
  const WordVector kept = (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
  const HalfVector halves = __builtin_convertvector(kept, HalfVector);
  std::memcpy(to, &halves, sizeof halves);
}

// Adds two terms of every row to two sums of every channel; terms(element, channel, first, second) gives them.
template <class Terms>
PACELINE_INLINE void add_up(int64_t begin, int64_t end, int64_t channels, double* sums, const Terms& terms) {
  for (int64_t block = begin; block < end; block += kSummedRows) {
    const int64_t last = std::min(block + kSummedRows, end);
    for (int64_t c = 0; c < channels; c += kVectorLanes) {
      Vector first_sum = {}, second_sum = {};
      for (int64_t row = block; row < last; ++row) {
        Vector first, second;
        terms(row * channels + c, c, first, second);
        first_sum += first;
        second_sum += second;
      }
      for (int64_t lane = 0; lane < kVectorLanes; ++lane) {
        sums[c + lane] += first_sum[lane];
        sums[channels + c + lane] += second_sum[lane];
      }
    }
  }
}

template <class Number>
struct ForwardPass {
  explicit ForwardPass(const BatchNormForward& pass)
      : channels(pass.shape.channels),
        x(static_cast<const Number*>(pass.input)),
        residual(static_cast<const Number*>(pass.residual)),
        out(static_cast<Number*>(pass.output)),
        statistics(pass.statistics) {}

  PACELINE_INLINE void sum(int64_t begin, int64_t end, const float* shift, double* sums) const {
    add_up(
        begin, end, channels,
        sums, [&](int64_t at, int64_t c, Vector & first, Vector & second) __attribute__((always_inline)) {
          Vector apart;
          load_vector(first, x + at);
          load_vector(apart, shift + c);
          first -= apart;
          second = first * first;
        });
  }

  template <bool kRelu, bool kResidual>
  PACELINE_INLINE void write(int64_t begin, int64_t end) const {
    const float *mean = statistics + BatchNormStatistics::mean * channels,
                *scale = statistics + BatchNormStatistics::scale * channels,
                *beta = statistics + BatchNormStatistics::beta * channels;
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t c = 0; c < channels; c += kVectorLanes) {
        const int64_t at = row * channels + c;
        Vector value, center, factor, offset, added;
        load_vector(value, x + at);
        load_vector(center, mean + c);
        load_vector(factor, scale + c);
        load_vector(offset, beta + c);
        value = (value - center) * factor + offset;
        if constexpr (kResidual) {
          load_vector(added, residual + at);
          value += added;
        }
        if constexpr (kRelu) value = value <= 0.0f ? Vector{} : value;
        store_vector(out + at, value);
      }
    }
  }

  PACELINE_INLINE void write(int64_t begin, int64_t end, bool relu) const {
    if (relu && residual != nullptr) return write<true, true>(begin, end);
    if (relu) return write<true, false>(begin, end);
    if (residual != nullptr) return write<false, true>(begin, end);
    write<false, false>(begin, end);
  }

  int64_t channels;
  const Number *x, *residual;
  Number* out;
  float* statistics;
};

// What the ReLU let pass is told by: nobody (there is none), the output, or the input, with the bits of forward.
enum class Passed { all, by_output, by_input };

template <class Number>
struct BackwardPass {
  explicit BackwardPass(const BatchNormBackward& pass)
      : channels(pass.shape.channels),
        x(static_cast<const Number*>(pass.input)),
        out(static_cast<const Number*>(pass.output)),
        gradient(static_cast<const Number*>(pass.gradient)),
        masked(static_cast<Number*>(pass.masked_gradient)),
        input_gradient(static_cast<Number*>(pass.input_gradient)),
        mean(pass.statistics + BatchNormStatistics::mean * channels),
        scale(pass.statistics + BatchNormStatistics::scale * channels),
        beta(pass.statistics + BatchNormStatistics::beta * channels) {}

  // g, and x - mean.
  template <Passed kPassed>
  PACELINE_INLINE void read(int64_t at, int64_t c, Vector& g, Vector& apart) const {
    Vector center;
    load_vector(g, gradient + at);
    load_vector(apart, x + at);
    load_vector(center, mean + c);
    apart -= center;
    Vector value;
    if constexpr (kPassed == Passed::by_output) load_vector(value, out + at);
    if constexpr (kPassed == Passed::by_input) {
      Vector factor, offset;
      load_vector(factor, scale + c);
      load_vector(offset, beta + c);
      value = apart * factor + offset;
    }
    if constexpr (kPassed != Passed::all) g = value <= 0.0f ? Vector{} : g;
  }

  template <Passed kPassed>
  PACELINE_INLINE void sum(int64_t begin, int64_t end, double* sums) const {
    add_up(
        begin, end, channels,
        sums, [&](int64_t at, int64_t c, Vector & first, Vector & second) __attribute__((always_inline)) {
          read<kPassed>(at, c, first, second);
          if constexpr (kPassed == Passed::by_output) store_vector(masked + at, first);
          second *= first;
        });
  }

  PACELINE_INLINE void sum(int64_t begin, int64_t end, double* sums, Passed passed) const {
    if (passed == Passed::all) return sum<Passed::all>(begin, end, sums);
    if (passed == Passed::by_input) return sum<Passed::by_input>(begin, end, sums);
    sum<Passed::by_output>(begin, end, sums);
  }

  // x' = scale·(g - offset - slope·(x - mean)); offset and slope are per channel.
  template <Passed kPassed>
  PACELINE_INLINE void write(int64_t begin, int64_t end, const float* offset, const float* slope) const {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t c = 0; c < channels; c += kVectorLanes) {
        const int64_t at = row * channels + c;
        Vector g, apart, factor, constant, inclined;
        read<kPassed>(at, c, g, apart);
        load_vector(factor, scale + c);
        load_vector(constant, offset + c);
        load_vector(inclined, slope + c);
        store_vector(input_gradient + at, factor * (g - constant - inclined * apart));
      }
    }
  }

  PACELINE_INLINE void write(int64_t begin, int64_t end, const float* offset, const float* slope, Passed passed) const {
    if (passed == Passed::by_input) return write<Passed::by_input>(begin, end, offset, slope);
    write<Passed::all>(begin, end, offset, slope);
  }

  int64_t channels;
  const Number *x, *out, *gradient;
  Number *masked, *input_gradient;
  const float *mean, *scale, *beta;
};

// One function each for the loader to choose an instruction set for.
#define PACELINE_BATCH_NORM_LOOPS(Number, name)                                                               \
  PACELINE_VECTORISED void forward_sums_##name(const ForwardPass<Number>& pass, int64_t begin, int64_t end,   \
                                               const float* shift, double* sums) {                            \
    pass.sum(begin, end, shift, sums);                                                                        \
  }                                                                                                           \
  PACELINE_VECTORISED void forward_rows_##name(const ForwardPass<Number>& pass, int64_t begin, int64_t end,   \
                                               bool relu) {                                                   \
    pass.write(begin, end, relu);                                                                             \
  }                                                                                                           \
  PACELINE_VECTORISED void backward_sums_##name(const BackwardPass<Number>& pass, int64_t begin, int64_t end, \
                                                double* sums, Passed passed) {                                \
    pass.sum(begin, end, sums, passed);                                                                       \
  }                                                                                                           \
  PACELINE_VECTORISED void backward_rows_##name(const BackwardPass<Number>& pass, int64_t begin, int64_t end, \
                                                const float* offset, const float* slope, Passed passed) {     \
    pass.write(begin, end, offset, slope, passed);                                                            \
  }

PACELINE_BATCH_NORM_LOOPS(float, f32)
PACELINE_BATCH_NORM_LOOPS(uint16_t, bf16)

bool is_f32(const BatchNormShape& shape) { return shape.number == DeviceNumber::f32; }

int64_t chunk_rows(const BatchNormShape& shape) {
  return std::max(kSummedRows, kChunkElements / std::max<int64_t>(shape.channels, 1));
}

int64_t chunk_count(const BatchNormShape& shape) { return (shape.rows + chunk_rows(shape) - 1) / chunk_rows(shape); }

// visit(begin, end) of every chunk of rows.
template <class Visit>
void each_chunk(const BatchNormShape& shape, const ForEachChunk& for_each, const Visit& visit) {
  for_each(chunk_count(shape), [&](int64_t chunk) {
    const int64_t begin = chunk * chunk_rows(shape);
    visit(chunk, begin, std::min(begin + chunk_rows(shape), shape.rows));
  });
}

// Two sums of every channel: each chunk's own, added in their order. sum(begin, end, sums) adds to zeros.
template <class Sum>
std::vector<double> sums_of(const BatchNormShape& shape, const ForEachChunk& for_each, const Sum& sum) {
  const auto width = static_cast<size_t>(2 * shape.channels);
  std::vector<double> parts(width * static_cast<size_t>(chunk_count(shape)));
  each_chunk(shape, for_each, [&](int64_t chunk, int64_t begin, int64_t end) {
    sum(begin, end, parts.data() + static_cast<size_t>(chunk) * width);
  });
  for (size_t i = width; i < parts.size(); ++i) parts[i % width] += parts[i];
  parts.resize(width);
  return parts;
}

// Numbers near each channel's mean: squares of what is left when they are taken off lose nothing to a large mean.
std::vector<float> shifts_of(const BatchNormForward& pass) {
  const BatchNormShape& shape = pass.shape;
  const int64_t rows = std::min(shape.rows, kSummedRows);
  std::vector<float> none(static_cast<size_t>(shape.channels));
  std::vector<double> sums(static_cast<size_t>(2 * shape.channels));
  if (is_f32(shape))
    forward_sums_f32(ForwardPass<float>(pass), 0, rows, none.data(), sums.data());
  else
    forward_sums_bf16(ForwardPass<uint16_t>(pass), 0, rows, none.data(), sums.data());
  for (size_t c = 0; c < none.size(); ++c) {
    const auto shift = static_cast<float>(sums[c] / static_cast<double>(rows));
    none[c] = std::isfinite(shift) ? shift : 0;  // what is not finite is found by the sums
  }
  return none;
}

Passed passed_by(const BatchNormBackward& pass) {
  if (!pass.relu) return Passed::all;
  return pass.masked_gradient != nullptr ? Passed::by_output : Passed::by_input;
}

}  // namespace

BatchNormMoments batch_norm_moments(const BatchNormForward& pass, const ForEachChunk& for_each) {
  const BatchNormShape& shape = pass.shape;
  const std::vector<float> shifts = shifts_of(pass);
  const std::vector<double> sums = sums_of(shape, for_each, [&](int64_t begin, int64_t end, double* own) {
    if (is_f32(shape))
      forward_sums_f32(ForwardPass<float>(pass), begin, end, shifts.data(), own);
    else
      forward_sums_bf16(ForwardPass<uint16_t>(pass), begin, end, shifts.data(), own);
  });
  BatchNormMoments moments(static_cast<size_t>(shape.channels));
  const auto rows = static_cast<double>(shape.rows);
  for (size_t c = 0; c < shifts.size(); ++c) {
    const double apart = sums[c] / rows;
    moments[c] = {.mean = shifts[c] + apart, .variance = std::max(0.0, sums[shifts.size() + c] / rows - apart * apart)};
    if (!std::isfinite(apart)) moments[c].variance = apart;  // max() would hide it
  }
  return moments;
}

void batch_norm_forward_with(const BatchNormMoments& moments, double count, const BatchNormForward& pass,
                             const ForEachChunk& for_each) {
  const int64_t channels = pass.shape.channels;
  for (int64_t c = 0; c < channels; ++c) {
    const auto& [mean, variance] = moments[static_cast<size_t>(c)];
    const auto row = [&](int which) -> float& { return pass.statistics[which * channels + c]; };
    row(BatchNormStatistics::mean) = static_cast<float>(mean);
    row(BatchNormStatistics::inverse_deviation) = static_cast<float>(1 / std::sqrt(variance + pass.epsilon));
    row(BatchNormStatistics::scale) = pass.gamma[c] * row(BatchNormStatistics::inverse_deviation);
    row(BatchNormStatistics::beta) = pass.beta[c];
    const auto move = [&](float& running, double towards) {
      running = (1 - pass.momentum) * running + pass.momentum * static_cast<float>(towards);
    };
    move(pass.running_mean[c], mean);
    move(pass.running_variance[c], variance * count / std::max(count - 1, 1.0));
  }
  if (pass.batches != nullptr) ++*pass.batches;
  each_chunk(pass.shape, for_each, [&](int64_t, int64_t begin, int64_t end) {
    if (is_f32(pass.shape))
      forward_rows_f32(ForwardPass<float>(pass), begin, end, pass.relu);
    else
      forward_rows_bf16(ForwardPass<uint16_t>(pass), begin, end, pass.relu);
  });
}

void batch_norm_forward(const BatchNormForward& pass, const ForEachChunk& for_each) {
  batch_norm_forward_with(batch_norm_moments(pass, for_each), static_cast<double>(pass.shape.rows), pass, for_each);
}

void batch_norm_backward_sums(const BatchNormBackward& pass, const ForEachChunk& for_each) {
  const BatchNormShape& shape = pass.shape;
  const Passed passed = passed_by(pass);
  const std::vector<double> sums = sums_of(shape, for_each, [&](int64_t begin, int64_t end, double* own) {
    if (is_f32(shape))
      backward_sums_f32(BackwardPass<float>(pass), begin, end, own, passed);
    else
      backward_sums_bf16(BackwardPass<uint16_t>(pass), begin, end, own, passed);
  });
  const float* const inverse_deviation = pass.statistics + BatchNormStatistics::inverse_deviation * shape.channels;
  for (int64_t c = 0; c < shape.channels; ++c) {
    pass.beta_gradient[c] = static_cast<float>(sums[static_cast<size_t>(c)]);
    pass.gamma_gradient[c] = static_cast<float>(sums[static_cast<size_t>(shape.channels + c)] * inverse_deviation[c]);
  }
}

void batch_norm_backward_with(const float* beta_gradient, const float* gamma_gradient, double count,
                              const BatchNormBackward& pass, const ForEachChunk& for_each) {
  const int64_t channels = pass.shape.channels;
  const float* const inverse_deviation = pass.statistics + BatchNormStatistics::inverse_deviation * channels;
  std::vector<float> offset(static_cast<size_t>(channels)), slope(offset);
  for (int64_t c = 0; c < channels; ++c) {
    offset[static_cast<size_t>(c)] = static_cast<float>(beta_gradient[c] / count);
    slope[static_cast<size_t>(c)] = static_cast<float>(gamma_gradient[c] / count * inverse_deviation[c]);
  }
  BatchNormBackward masked = pass;  // what the first pass has masked is read in the gradient's place
  Passed passed = passed_by(pass);
  if (passed == Passed::by_output) masked.gradient = pass.masked_gradient, passed = Passed::all;
  each_chunk(pass.shape, for_each, [&](int64_t, int64_t begin, int64_t end) {
    if (is_f32(pass.shape))
      backward_rows_f32(BackwardPass<float>(masked), begin, end, offset.data(), slope.data(), passed);
    else
      backward_rows_bf16(BackwardPass<uint16_t>(masked), begin, end, offset.data(), slope.data(), passed);
  });
}

void batch_norm_backward(const BatchNormBackward& pass, const ForEachChunk& for_each) {
  batch_norm_backward_sums(pass, for_each);
  batch_norm_backward_with(pass.beta_gradient, pass.gamma_gradient, static_cast<double>(pass.shape.rows), pass,
                           for_each);
}

}  // namespace paceline
