// For tests: a DeviceCommunicator on host memory, made of a group's messages. Everything is done when a call returns.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "paceline/collectives/all_gather.h"
#include "paceline/collectives/reduce_scatter.h"
#include "paceline/collectives/ring.h"
#include "paceline/comm/device_communicator.h"
#include "paceline/comm/group.h"

namespace paceline {

class HostCommunicator : public DeviceCommunicator {
 public:
  explicit HostCommunicator(std::unique_ptr<Group> group)
      : DeviceCommunicator(group->rank(), group->size()), group_(std::move(group)) {}
  static std::unique_ptr<HostCommunicator> over(Group& group) {
    return std::make_unique<HostCommunicator>(group.split(0, group.rank()));
  }

  void together(const std::function<void()>& body) override {
    body();
    for (Work& work : works_) work.wait();
    works_.clear();
  }
  std::unique_ptr<DeviceCommunicator> split(int color, int key) override {
    return std::make_unique<HostCommunicator>(group_->split(color, key));
  }

  // What was asked for, in this order: verb and elements.
  const std::vector<std::pair<Verb, size_t>>& calls() const { return calls_; }

 protected:
  void do_all_reduce(const TensorView& data, ReduceOp op) override {
    calls_.emplace_back(Verb::all_reduce, data.count);
    ring_all_reduce(*group_, data, op);
  }
  // In memory of its own: the other parts of `all` stay as they are, as with NCCL.
  void do_reduce_scatter(const TensorView& all, const TensorView& mine, ReduceOp op) override {
    calls_.emplace_back(Verb::reduce_scatter, all.count);
    std::vector<std::byte> bytes(all.bytes());
    const TensorView sums = {bytes.data(), all.count, all.dtype};
    copy_bytes(sums, all);
    ring_reduce_scatter(*group_, sums, op);
    copy_bytes(mine, chunk(sums, static_cast<size_t>(rank()), static_cast<size_t>(size())));
  }
  void do_all_gather(const TensorView& mine, const TensorView& all) override {
    calls_.emplace_back(Verb::all_gather, all.count);
    const TensorView place = chunk(all, static_cast<size_t>(rank()), static_cast<size_t>(size()));
    if (place.data != mine.data) copy_bytes(place, mine);
    ring_all_gather(*group_, all);
  }
  void do_broadcast(const TensorView& data, int root) override { group_->broadcast(data, root); }
  void do_send(const TensorView& data, int to) override { works_.push_back(group_->send(data, to)); }
  void do_receive(const TensorView& data, int from) override { works_.push_back(group_->receive(data, from)); }

 private:
  std::unique_ptr<Group> group_;
  std::vector<std::pair<Verb, size_t>> calls_;
  std::vector<Work> works_;
};

}  // namespace paceline
