// NCCL: DeviceCommunicator for CUDA devices, over NVLink within a host and the network between hosts.
//
// Made over a host group, which tells everyone NCCL's identifier of the new communicator and goes on watching: NCCL has
// no time-outs of its own. Communicators are non-blocking, so that no call into NCCL lasts: making one, splitting it
// and queueing an operation are polled for, with the time-out of the host group and an eye on its alarm. A failure
// raises that alarm; the error names the operation, its bytes and the rank. The alarm, whoever raised it, aborts all
// communicators of the process, which ends their kernels: a rank that waits for its device finds it idle, and its next
// operation throws. A communicator that goes while an exception passes is aborted, too: the
// others may never come.
//
// Queueing costs NCCL a thread (some 30 µs on the host): good for buckets of gradients, not for many small operations.
//
// Where several ranks share a device (device_sharing.h), NCCL's environment variables are set in this process, except
// those that somebody has set already, and remark() says so.
//
// Builds without CUDA have nccl_communicator_missing.cc in its place.
#pragma once

#include <memory>

#include "paceline/comm/device_communicator.h"
#include "paceline/comm/group.h"

namespace paceline {

// All ranks of the group, rank by rank. Every rank calls it; `device` is the number of this rank's CUDA device. The
// group must outlive it. Throws PeerError; UsageError in a build without CUDA.
std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Group& group, int device);

}  // namespace paceline
