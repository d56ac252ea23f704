// Stands in for nccl_communicator.cc in a build without CUDA.
#include "paceline/comm/nccl_communicator.h"
#include "paceline/core/error.h"

namespace paceline {

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Group&, int) {
  throw UsageError("this build has no NCCL; build it with 'make build PRESET=cuda', or compute on the CPU");
}

}  // namespace paceline
