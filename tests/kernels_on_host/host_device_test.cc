// That the device made of loops shows what kernels do wrong.
#include "host_device.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "cuda_runtime.h"
#include "paceline/core/error.h"

namespace paceline::host_device {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

void count_in(std::vector<int>* counts) { ++counts->at(blockIdx.x * blockDim.x + threadIdx.x); }

void reverse(int* numbers, bool with_barrier) {
  __shared__ int copy[64];
  copy[threadIdx.x] = numbers[threadIdx.x];
  if (with_barrier) __syncthreads();
  numbers[threadIdx.x] = copy[63 - threadIdx.x];
}

void sum_of_warp(double* sum) {
  double own = threadIdx.x + 1.0;
  for (unsigned distance = 16; distance > 0; distance /= 2) own += __shfl_down_sync(0xffffffff, own, distance);
  if (threadIdx.x % 32 == 0) sum[threadIdx.x / 32] = own;
}

void wait_alone() {
  if (threadIdx.x != 7) __syncthreads();
}

void read_between_two(const float* numbers) { __ldg(reinterpret_cast<const float4*>(numbers + 1)); }

// Of the 64 numbers from `first` on.
std::vector<int> reversed(int first, bool with_barrier, uint64_t order) {
  device().order = order;
  std::vector<int> numbers(64);
  std::iota(numbers.begin(), numbers.end(), first);
  reverse->*Launch(1, 64, 0, nullptr)->*arguments_of(numbers.data(), with_barrier);
  device().order = 0;
  return numbers;
}

TEST(HostDevice, RunsEveryThreadOnceInAnyOrder) {
  for (device().order = 0; device().order < 3; ++device().order) {
    std::vector<int> counts(5 * 40);
    count_in->*Launch(5, 40, 0, nullptr)->*arguments_of(&counts);
    EXPECT_THAT(counts, Each(1));
  }
  device().order = 0;
}

TEST(HostDevice, ABarrierLetsThreadsSeeWhatOthersWrote) {
  for (const uint64_t order : {0, 1, 2}) {
    const std::vector<int> numbers = reversed(5, true, order);
    EXPECT_EQ(numbers.front(), 68);
    EXPECT_EQ(numbers.back(), 5);
  }
}

TEST(HostDevice, WithoutTheBarrierTheOrderShows) {
  const std::vector<int> right = reversed(5, true, 1);
  reversed(100, true, 1);  // what the block before has left is not what is looked for
  EXPECT_NE(reversed(5, false, 1), right);
}

TEST(HostDevice, ShufflesAreOfAWarp) {
  for (device().order = 0; device().order < 3; ++device().order) {
    std::vector<double> sums(2);
    sum_of_warp->*Launch(1, 64, 0, nullptr)->*arguments_of(sums.data());
    EXPECT_THAT(sums, ElementsAre(32 * 33 / 2, 64 * 65 / 2 - 32 * 33 / 2));
  }
  device().order = 0;
}

TEST(HostDevice, ABarrierThatAThreadNeverReachesIsAnError) {
  EXPECT_THAT([] { wait_alone->*Launch(1, 64, 0, nullptr)->*arguments_of(); },
              Throws<InternalError>(Property(&InternalError::what, HasSubstr("never arrive"))));
  std::vector<int> counts(40);
  count_in->*Launch(1, 40, 0, nullptr)->*arguments_of(&counts);  // and the next launch is not harmed
  EXPECT_THAT(counts, Each(1));
}

TEST(HostDevice, AVectorBetweenTwoIsAnError) {
  alignas(16) const float numbers[8] = {};
  EXPECT_THAT([&] { read_between_two->*Launch(1, 32, 0, nullptr)->*arguments_of(&numbers[0]); },
              Throws<InternalError>(Property(&InternalError::what, HasSubstr("not aligned to 16 bytes"))));
}

}  // namespace
}  // namespace paceline::host_device
