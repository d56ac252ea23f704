// One thread makes four neighbouring pixels of all channels: in either layout these are as many vectors of four numbers
// as there are channels, written by one store each. A block is 1024 pixels of one image (all of a CIFAR image; a
// part of a larger one), so that small batches of large images still fill the device.
//
// Bytes are read one by one: where a crop begins, no wider load is aligned, and neighbouring threads meet in the same
// cache lines. The tables, 1 KB per channel, stay in the first-level cache.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "paceline/kernels/augment.h"
#include "paceline/kernels/device_launch.h"

namespace paceline {
namespace {

constexpr int kThreads = 256;
constexpr int kPixels = 4;  // per thread
constexpr int kTile = kThreads * kPixels;

__device__ inline void convert(float value, float& to) { to = value; }
__device__ inline void convert(float value, __half& to) { to = __float2half_rn(value); }
__device__ inline void convert(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }

template <class Number>
struct alignas(kPixels * sizeof(Number)) Vector {
  Number of[kPixels];
};

// Where a thread's pixels come from; the same for every channel.
struct Sources {
  int offset[kPixels];  // within the channel; -1: outside of the image, -2: cut out
};

__device__ inline Sources sources_of(const AugmentedBatch& batch, const AugmentedSample& sample, int first,
                                     int pixels) {
  const int height = static_cast<int>(batch.height), width = static_cast<int>(batch.width);
  const int cutout = static_cast<int>(batch.cutout);
  const int top = sample.cut_row - cutout / 2, left = sample.cut_column - cutout / 2;
  Sources sources;
#pragma unroll
  for (int k = 0; k < kPixels; ++k) {
    const int at = first + k < pixels ? first + k : pixels - 1;
    const int y = at / width, x = at % width;
    const int from_y = y + sample.shift_down;
    const int from_x = (sample.mirror != 0 ? width - 1 - x : x) + sample.shift_right;
    const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
    const bool cut = y >= top && y < top + cutout && x >= left && x < left + cutout;
    sources.offset[k] = cut ? -2 : inside ? from_y * width + from_x : -1;
  }
  return sources;
}

__device__ inline float pixel(const uint8_t* __restrict__ plane, const float* __restrict__ table, int offset) {
  if (offset == -2) return 0;
  return __ldg(table + (offset >= 0 ? __ldg(plane + offset) : 0));
}

// kChannels 0: any number of them, one number at a time.
template <class Number, int kChannels>
__global__ void __launch_bounds__(kThreads)
    augment(const __grid_constant__ AugmentedBatch batch, int tiles, bool vectors) {
  const int64_t image = blockIdx.x / static_cast<unsigned>(tiles);
  const int tile = static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles));
  const uint4 bits = __ldg(reinterpret_cast<const uint4*>(batch.samples) + image);
  AugmentedSample sample;
  memcpy(&sample, &bits, sizeof(sample));
  if (tile == 0 && threadIdx.x == 0) batch.labels[image] = __ldg(batch.set_labels + sample.index);

  const int pixels = static_cast<int>(batch.height * batch.width);
  const int first = tile * kTile + static_cast<int>(threadIdx.x) * kPixels;
  if (first >= pixels) return;
  const int channels = kChannels > 0 ? kChannels : static_cast<int>(batch.channels);
  const uint8_t* const from = batch.set_images + int64_t{sample.index} * channels * pixels;
  Number* const to = static_cast<Number*>(batch.images) + image * channels * pixels;
  const Sources sources = sources_of(batch, sample, first, pixels);

  if constexpr (kChannels > 0) {
    if (vectors) {
      Number values[kPixels * kChannels];  // as they lie in memory when channels are last
#pragma unroll
      for (int channel = 0; channel < kChannels; ++channel) {
#pragma unroll
        for (int k = 0; k < kPixels; ++k) {
          convert(pixel(from + int64_t{channel} * pixels, batch.tables + 256 * channel, sources.offset[k]),
                  values[k * kChannels + channel]);
        }
      }
#pragma unroll
      for (int part = 0; part < kChannels; ++part) {
        Vector<Number> vector;
        Number* place;
        if (batch.channels_last) {
#pragma unroll
          for (int k = 0; k < kPixels; ++k) vector.of[k] = values[part * kPixels + k];
          place = to + int64_t{first} * kChannels + part * kPixels;
        } else {
#pragma unroll
          for (int k = 0; k < kPixels; ++k) vector.of[k] = values[k * kChannels + part];
          place = to + int64_t{part} * pixels + first;
        }
        *reinterpret_cast<Vector<Number>*>(place) = vector;
      }
      return;
    }
  }
  for (int channel = 0; channel < channels; ++channel) {
#pragma unroll
    for (int k = 0; k < kPixels; ++k) {
      if (first + k >= pixels) continue;
      const int64_t at =
          batch.channels_last ? int64_t{first + k} * channels + channel : int64_t{channel} * pixels + first + k;
      convert(pixel(from + int64_t{channel} * pixels, batch.tables + 256 * channel, sources.offset[k]), to[at]);
    }
  }
}

template <class Number>
void launch(const AugmentedBatch& batch, DeviceStream stream) {
  const int64_t pixels = batch.height * batch.width;
  const int64_t tiles = (pixels + kTile - 1) / kTile;
  const int64_t blocks = batch.count * tiles;
  if (pixels > INT32_MAX || blocks > INT32_MAX) device_call_failed("augment", "the images are too large");
  // Every image then begins at a multiple of four numbers, and so does every channel.
  const bool vectors = pixels % kPixels == 0 && reinterpret_cast<uintptr_t>(batch.images) % sizeof(Vector<Number>) == 0;
  const auto grid = static_cast<unsigned>(blocks);
  switch (batch.channels) {
    case 1:
      augment<Number, 1><<<grid, kThreads, 0, stream>>>(batch, static_cast<int>(tiles), vectors);
      break;
    case 3:
      augment<Number, 3><<<grid, kThreads, 0, stream>>>(batch, static_cast<int>(tiles), vectors);
      break;
    default:
      augment<Number, 0><<<grid, kThreads, 0, stream>>>(batch, static_cast<int>(tiles), vectors);
  }
  check_launch("augment");
}

}  // namespace

void augment_on_device(const AugmentedBatch& batch, DeviceStream stream) {
  if (batch.count == 0) return;
  switch (batch.type) {
    case DeviceNumber::f32:
      return launch<float>(batch, stream);
    case DeviceNumber::f16:
      return launch<__half>(batch, stream);
    case DeviceNumber::bf16:
      return launch<__nv_bfloat16>(batch, stream);
  }
}

}  // namespace paceline
