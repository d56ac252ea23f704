#include "paceline/comm/device_communicator.h"

namespace paceline {
namespace {

void require_parts(const TensorView& all, const TensorView& mine, int ranks) {
  CHECK_EQ(all.count, mine.count * static_cast<size_t>(ranks));
  CHECK_EQ(name_of(all.dtype), name_of(mine.dtype));
  CHECK_TRUE(all.stream == mine.stream, "two streams in one operation");
}

}  // namespace

void DeviceCommunicator::all_reduce(const TensorView& data, ReduceOp op) {
  if (data.count > 0) do_all_reduce(data, op);
}

void DeviceCommunicator::reduce_scatter(const TensorView& all, const TensorView& mine, ReduceOp op) {
  require_parts(all, mine, size_);
  if (all.count > 0) do_reduce_scatter(all, mine, op);
}

void DeviceCommunicator::all_gather(const TensorView& mine, const TensorView& all) {
  require_parts(all, mine, size_);
  if (all.count > 0) do_all_gather(mine, all);
}

void DeviceCommunicator::broadcast(const TensorView& data, int root) {
  CHECK_TRUE(root >= 0 && root < size_, "root {} of {} ranks", root, size_);
  if (data.count > 0) do_broadcast(data, root);
}

void DeviceCommunicator::send(const TensorView& data, int to) {
  CHECK_TRUE(to >= 0 && to < size_ && to != rank_, "rank {} of {} cannot send to {}", rank_, size_, to);
  if (data.count > 0) do_send(data, to);
}

void DeviceCommunicator::receive(const TensorView& data, int from) {
  CHECK_TRUE(from >= 0 && from < size_ && from != rank_, "rank {} of {} cannot receive from {}", rank_, size_, from);
  if (data.count > 0) do_receive(data, from);
}

}  // namespace paceline
