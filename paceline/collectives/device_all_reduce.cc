#include "paceline/collectives/device_all_reduce.h"

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/host_order.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr const char* kPossible = "on CUDA devices there are hybrid, native, torus2d and hierarchical";

bool has_equal_hosts(const Topology& topology) { return topology.hosts() > 1 && topology.ranks_per_host() > 1; }

}  // namespace

DeviceAllReduceChoice choose_device_all_reduce(const std::string& name, const Topology& topology,
                                               std::optional<Grid> grid) {
  const int ranks = topology.ranks();
  const Grid hosts = {.x = std::max(1, topology.ranks_per_host()), .y = topology.hosts()};
  if (name == "hybrid")
    return choose_device_all_reduce(has_equal_hosts(topology) ? "hierarchical" : "native", topology);
  all_reduce_algorithm(name);  // throws where there is none of that name
  if (name == "native") return {name, {.x = ranks, .y = 1}};
  if (name == "torus2d") return {name, grid.value_or(choose_grid(ranks, topology.ranks_per_host()))};
  if (name != "hierarchical") throw UsageError(fmt::format("{} adds on the CPU; {}", name, kPossible));
  if (!has_equal_hosts(topology))
    throw UsageError(
        fmt::format("hierarchical needs several hosts with equally many ranks, at least 2 each; here are {} rank{} on "
                    "{} host{}; {}",
                    ranks, ranks == 1 ? "" : "s", topology.hosts(), topology.hosts() == 1 ? "" : "s", kPossible));
  return {name, hosts};
}

Plan plan_of(const DeviceAllReduceChoice& choice) {
  Plan plan = {.grid = choice.grid};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64})
    plan.steps[dtype] = {{.up_to_bytes = kAnySize, .algorithm = choice.algorithm}};
  return plan;
}

DeviceAllReduceChoice choice_of(const Plan& plan) { return {plan.algorithm(DType::f32, 0), plan.grid}; }

double device_all_reduce_seconds(const Topology& topology, double bytes) {
  constexpr double kStart = 20e-6;  // of a kernel that meets its peers, with the host's share
  constexpr double kNvlinkPerByte = 1 / 200e9, kNetworkPerByte = 1 / 12.5e9;
  const auto share = [](int members) { return 2.0 * (members - 1) / members; };
  const int hosts = topology.hosts(), ranks = topology.ranks();
  if (hosts <= 1) return kStart + share(ranks) * bytes * kNvlinkPerByte;
  return 2 * kStart + share(hosts) * bytes * kNetworkPerByte;
}

GridParts grid_parts(size_t count, int columns) {
  CHECK_GT(columns, 0);
  const size_t part = count / static_cast<size_t>(columns);
  const size_t even = part * static_cast<size_t>(columns);
  return {.part_count = part, .rest_begin = even, .rest_count = count - even};
}

DeviceAllReduce::DeviceAllReduce(Group& group, DeviceCommunicator& whole, const DeviceAllReduceChoice& choice)
    : group_(group), whole_(whole) {
  CHECK_EQ(whole.size(), group.size());
  CHECK_EQ(choice.grid.x * choice.grid.y, group.size());
  if (choice.algorithm == "native") return;
  const int place = place_by_host(group.topology(), group.rank());
  row_ = whole.split(place / choice.grid.x, place);
  column_ = whole.split(place % choice.grid.x, place);
}

void DeviceAllReduce::run(const TensorView& data, ReduceOp op) {
  group_.perform(Verb::all_reduce, data, op, -1, [&] { reduce(data, op); });
}

void DeviceAllReduce::reduce(const TensorView& data, ReduceOp op) {
  if (!row_) return whole_.all_reduce(data, op);
  const GridParts parts = grid_parts(data.count, row_->size());
  const TensorView even = data.first(parts.rest_begin);
  const TensorView mine = even.slice(static_cast<size_t>(row_->rank()) * parts.part_count, parts.part_count);
  row_->reduce_scatter(even, mine, op);
  column_->all_reduce(mine, op);
  row_->all_gather(mine, even);
  whole_.all_reduce(data.slice(parts.rest_begin, parts.rest_count), op);
}

}  // namespace paceline
