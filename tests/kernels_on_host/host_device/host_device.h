// A CUDA device made of loops, for tests of kernels where there is no GPU: what launches and barriers mean, on a CPU.
//
// The blocks of a grid run one after the other, the threads of a block as fibers that take turns at barriers and
// shuffles. Who goes first is up to HostDevice::order, and results must not depend on it: a kernel that lacks a barrier
// gives others in another order. What it reads and writes out of bounds or out of line, the sanitizers see. A barrier
// that some threads never reach ends the test. What it cannot show: speed, the order of memory between blocks that run
// at the same time, and everything that libtorch, cuDNN and NCCL do.
//
// Sources are made ready for it by translate.cmake: `kernel<<<blocks, threads, 0, stream>>>(arguments)` becomes
// `kernel ->*Launch(blocks, threads, 0, stream) ->*arguments_of(arguments)`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

struct dim3 {
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};

struct uint3 {
  unsigned x, y, z;
};

struct CUstream_st;

// As a kernel sees them: those of the thread that runs.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace paceline::host_device {

struct HostDevice {
  int multiprocessors = 3;
  uint64_t order = 0;  // 0: threads and blocks by their number; else shuffled with this seed
};

HostDevice& device();  // the one there is, as in CUDA

void run_grid(const dim3& blocks, const dim3& threads, const std::function<void()>& thread);

void wait_for_block();  // __syncthreads()

// The number that the lane `distance` above has brought to the same shuffle; its own where there is none.
uint64_t shuffle_down(uint64_t own, unsigned distance);

struct Launch {
  Launch(const dim3& blocks_, const dim3& threads_, size_t shared_bytes, CUstream_st* stream);
  dim3 blocks, threads;
};

template <class... Parameters>
struct LaunchedKernel {
  void (*kernel)(Parameters...);
  Launch launch;
};

template <class... Values>
struct Arguments {
  std::tuple<Values...> values;
};

template <class... Values>
Arguments<std::decay_t<Values>...> arguments_of(Values&&... values) {
  return {{std::forward<Values>(values)...}};
}

template <class... Parameters>
LaunchedKernel<Parameters...> operator->*(void (*kernel)(Parameters...), const Launch& launch) {
  return {kernel, launch};
}

template <class... Parameters, class... Values>
void operator->*(const LaunchedKernel<Parameters...>& launched, const Arguments<Values...>& arguments) {
  run_grid(launched.launch.blocks, launched.launch.threads, [&] { std::apply(launched.kernel, arguments.values); });
}

}  // namespace paceline::host_device
