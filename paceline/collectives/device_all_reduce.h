// All-reduce of device memory: by the communicator's own, or in steps along the rows and columns of a grid.
//
//   native        ncclAllReduce, which knows the links between devices
//   torus2d       reduce-scatter along the row, all-reduce of a part along the column, all-gather along the row: on
//                 X·Y = p ranks, any X
//   hierarchical  the same with hosts as rows: each rank sends 1/L of the buffer over the network (L ranks per host)
//   hybrid        native; on several hosts with equally many ranks, hierarchical
//
// Any count: what does not divide by the length of a row, fewer elements than that, is summed by the whole
// communicator. Nothing waits for the device (device_communicator.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "paceline/collectives/cost_model.h"
#include "paceline/collectives/plan.h"
#include "paceline/comm/device_communicator.h"
#include "paceline/comm/group.h"

namespace paceline {

struct DeviceAllReduceChoice {
  std::string algorithm;  // native, torus2d or hierarchical
  Grid grid;              // of the last two
  bool operator==(const DeviceAllReduceChoice&) const = default;
};

// What `name` (hybrid or an algorithm) means on these ranks; `grid` is for torus2d, by default the most square one.
// Throws UsageError: not possible on devices, or not for these ranks.
DeviceAllReduceChoice choose_device_all_reduce(const std::string& name, const Topology& topology,
                                               std::optional<Grid> grid = {});

// The choice as a plan for every type and size, as a run keeps it; and back.
Plan plan_of(const DeviceAllReduceChoice& choice);
DeviceAllReduceChoice choice_of(const Plan& plan);

// What an all-reduce takes, by figures of ordinary machines: NVLink within a host, 100 Gb/s between hosts. For choosing
// the size of buckets.
double device_all_reduce_seconds(const Topology& topology, double bytes);

// A buffer along a row: `columns` parts of `part_count`, and the rest behind them.
struct GridParts {
  size_t part_count = 0;
  size_t rest_begin = 0;
  size_t rest_count = 0;
};
GridParts grid_parts(size_t count, int columns);

class DeviceAllReduce {
 public:
  // Every rank calls it. `whole` has the ranks of the group; both must outlive this.
  DeviceAllReduce(Group& group, DeviceCommunicator& whole, const DeviceAllReduceChoice& choice);

  // Every rank calls it, with data of its device. Queued on its stream, and recorded as an operation of the group.
  void run(const TensorView& data, ReduceOp op);

 private:
  void reduce(const TensorView& data, ReduceOp op);

  Group& group_;
  DeviceCommunicator& whole_;
  std::unique_ptr<DeviceCommunicator> row_;  // null: native
  std::unique_ptr<DeviceCommunicator> column_;
};

}  // namespace paceline
