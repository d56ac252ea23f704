// For *.cu files: how the threads of a grid share rows x channels of data, and two sums for each channel in one pass.
//
// A thread keeps to one vector of 16 bytes of channels (a lane) and walks down the rows; what is per channel stays in
// its registers. The threads of a block that share a lane (slots) read neighbouring rows, so whole rows or runs of 512
// bytes are read at once, and the grid moves over the data as a front.
//
// Sums have two levels. A block merges its threads by a tree and leaves its part in memory; the block that arrives last
// merges the parts, again by a tree. Which values meet in which order depends on the grid only, never on time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "paceline/kernels/device_vectors.h"

namespace paceline {

struct ChannelGrid {
  int rows;
  int channels;
  int groups;  // vectors in a row
  int lanes;   // of them, in a block
  int slots;   // rows that a block reads at once
  int tiles;   // gridDim.x: blocks side by side in a row
  int blocks;  // gridDim.y: blocks that share the rows of a tile
};

inline ChannelGrid channel_grid(int64_t rows, int64_t channels, int vector, int threads, int most_lanes,
                                int most_blocks) {
  ChannelGrid grid;
  grid.rows = static_cast<int>(rows);
  grid.channels = static_cast<int>(channels);
  grid.groups = grid.channels / vector;
  grid.tiles = (grid.groups + most_lanes - 1) / most_lanes;
  grid.lanes = (grid.groups + grid.tiles - 1) / grid.tiles;
  grid.slots = threads / grid.lanes;
  grid.blocks = std::min(std::max(1, most_blocks / grid.tiles), (grid.rows + grid.slots - 1) / grid.slots);
  return grid;
}

inline int multiprocessors() {
  int device = 0, count = 0;
  check_device("cudaGetDevice", cudaGetDevice(&device));
  check_device("cudaDeviceGetAttribute", cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

// Where this thread is in the grid.
struct ChannelPlace {
  __device__ explicit ChannelPlace(const ChannelGrid& grid)
      : lane(static_cast<int>(threadIdx.x) % grid.lanes),
        slot(static_cast<int>(threadIdx.x) / grid.lanes),
        group(static_cast<int>(blockIdx.x) * grid.lanes + lane),
        first_row(static_cast<int>(blockIdx.y) * grid.slots + slot),
        step(grid.blocks * grid.slots),
        active(slot < grid.slots && group < grid.groups) {}

  int lane, slot;
  int group;      // the vector of a row
  int first_row;  // then every step-th
  int step;
  bool active;  // threads that are not keep the others company at barriers
};

// ---- Sums -----------------------------------------------------------------------------------------------------------

constexpr int kSumThreads = 512;
constexpr int kSumLanes = 32;
// One block for each multiprocessor, and at most as many as workspaces are made for: blocks that wait for another to
// end would double the time.
constexpr int kSumMostBlocks = 192;

// Two numbers for each of a thread's channels, and over how many rows they were made.
template <int kChannels>
struct ChannelSums {
  float first[kChannels] = {};
  float second[kChannels] = {};
  float count = 0;
};

struct AddSums {
  template <int kChannels>
  __device__ static void merge(ChannelSums<kChannels>& into, const ChannelSums<kChannels>& other) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      into.first[i] += other.first[i];
      into.second[i] += other.second[i];
    }
    into.count += other.count;
  }
};

// `first` is a mean, `second` the sum of squared distances from it (Chan, Golub, LeVeque).
struct MergeMoments {
  template <int kChannels>
  __device__ static void merge(ChannelSums<kChannels>& into, const ChannelSums<kChannels>& other) {
    if (other.count == 0) return;
    if (into.count == 0) {
      into = other;
      return;
    }
    const float count = into.count + other.count;
    const float share = other.count / count;
    const float weight = into.count * share;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const float apart = other.first[i] - into.first[i];
      into.first[i] = __fmaf_rn(apart, share, into.first[i]);
      into.second[i] = __fmaf_rn(apart * apart, weight, into.second[i] + other.second[i]);
    }
    into.count = count;
  }
};

// Merges what the slots of a block have; slot 0 then has all of it.
template <class Merge, int kChannels>
__device__ inline void merge_slots(ChannelSums<kChannels>& own, const ChannelGrid& grid, const ChannelPlace& place) {
  __shared__ float exchange[2 * kChannels + 1][kSumThreads / 2];
  for (int slots = grid.slots; slots > 1;) {
    const int kept = (slots + 1) / 2;
    if (place.slot >= kept && place.slot < slots) {
      const int at = (place.slot - kept) * grid.lanes + place.lane;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        exchange[i][at] = own.first[i];
        exchange[kChannels + i][at] = own.second[i];
      }
      exchange[2 * kChannels][at] = own.count;
    }
    __syncthreads();
    if (place.slot < slots - kept) {
      const int at = place.slot * grid.lanes + place.lane;
      ChannelSums<kChannels> other;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        other.first[i] = exchange[i][at];
        other.second[i] = exchange[kChannels + i][at];
      }
      other.count = exchange[2 * kChannels][at];
      Merge::merge(own, other);
    }
    __syncthreads();  // before the next round writes there
    slots = kept;
  }
}

// Rows that block `block` of a tile has read.
__device__ inline float rows_of_block(const ChannelGrid& grid, int block) {
  const int at_once = grid.blocks * grid.slots;
  const int rest = grid.rows % at_once - block * grid.slots;
  return static_cast<float>(grid.rows / at_once * grid.slots + max(0, min(rest, grid.slots)));
}

template <int kChannels>
__device__ inline void write_part(float* part, int width, const ChannelSums<kChannels>& sums) {
#pragma unroll
  for (int i = 0; i < kChannels; i += 4) {
    *reinterpret_cast<float4*>(part + i) =
        make_float4(sums.first[i], sums.first[i + 1], sums.first[i + 2], sums.first[i + 3]);
    *reinterpret_cast<float4*>(part + width + i) =
        make_float4(sums.second[i], sums.second[i + 1], sums.second[i + 2], sums.second[i + 3]);
  }
}

// Past the first-level cache, which does not hear of what other blocks write.
template <int kChannels>
__device__ inline void read_part(const float* part, int width, ChannelSums<kChannels>& sums) {
#pragma unroll
  for (int i = 0; i < kChannels; i += 4) {
    const float4 first = __ldcg(reinterpret_cast<const float4*>(part + i));
    const float4 second = __ldcg(reinterpret_cast<const float4*>(part + width + i));
    sums.first[i] = first.x;
    sums.first[i + 1] = first.y;
    sums.first[i + 2] = first.z;
    sums.first[i + 3] = first.w;
    sums.second[i] = second.x;
    sums.second[i + 1] = second.y;
    sums.second[i + 2] = second.z;
    sums.second[i + 3] = second.w;
  }
}

// True in the block that is the last of its tile to come here; it sees what others wrote, and fenced, before they came.
// The counter goes from blocks - 1 back to 0 by itself, ready for the next launch.
__device__ inline bool is_last_block(const ChannelGrid& grid, uint32_t* counters) {
  __shared__ bool last;
  __syncthreads();  // all of the block's parts are written before it is counted
  if (threadIdx.x == 0) {
    __threadfence();
    const auto most = static_cast<uint32_t>(grid.blocks - 1);
    last = atomicInc(counters + blockIdx.x, most) == most;
    __threadfence();
  }
  __syncthreads();
  return last;
}

// Ends a pass: in the last block of each tile, calls finish(channel, first, second) for each of its channels, one
// thread for each. sums: 2 x lanes x kChannels numbers for each block of the grid.
template <class Merge, int kChannels, class Finish>
__device__ inline void finish_channels(ChannelSums<kChannels>& own, const ChannelGrid& grid, const ChannelPlace& place,
                                       float* sums, uint32_t* counters, const Finish& finish) {
  constexpr int kLoads = 4;                  // parts that a thread has under way
  const int width = grid.lanes * kChannels;  // channels of a tile
  float* const tile = sums + static_cast<int64_t>(blockIdx.x) * grid.blocks * 2 * width + place.lane * kChannels;
  merge_slots<Merge>(own, grid, place);
  if (place.slot == 0) {
    write_part(tile + static_cast<int64_t>(blockIdx.y) * 2 * width, width, own);
    __threadfence();
  }
  if (!is_last_block(grid, counters)) return;

  ChannelSums<kChannels> total;
  if (place.slot < grid.slots) {
    for (int block = place.slot; block < grid.blocks; block += kLoads * grid.slots) {
      ChannelSums<kChannels> parts[kLoads];
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const int at = block + load * grid.slots;
        if (at < grid.blocks) read_part(tile + static_cast<int64_t>(at) * 2 * width, width, parts[load]);
      }
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const int at = block + load * grid.slots;
        if (at < grid.blocks) {
          parts[load].count = rows_of_block(grid, at);
          Merge::merge(total, parts[load]);
        }
      }
    }
  }
  merge_slots<Merge>(total, grid, place);

  __shared__ float totals[2][kSumLanes * kChannels];
  if (place.slot == 0) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      totals[0][place.lane * kChannels + i] = total.first[i];
      totals[1][place.lane * kChannels + i] = total.second[i];
    }
  }
  __syncthreads();
  const int own_channel = static_cast<int>(threadIdx.x);
  const int channel = static_cast<int>(blockIdx.x) * width + own_channel;
  if (own_channel < width && channel < grid.channels) finish(channel, totals[0][own_channel], totals[1][own_channel]);
}

}  // namespace paceline
