// What a build without CUDA says; with it, tests/gpu/nccl_checks.cc has the rest.
#include "paceline/comm/nccl_communicator.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/kernels/on_device.h"

namespace paceline {
namespace {

TEST(NcclCommunicator, OfABuildWithoutCudaSaysWhatToDo) {
  if (device_kernels_are_built()) GTEST_SKIP() << "this build has CUDA";
  const auto group = make_local_group();
  try {
    make_nccl_communicator(*group, 0);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("NCCL"), ::testing::HasSubstr("PRESET=cuda")));
  }
}

}  // namespace
}  // namespace paceline
