// DeviceCommunicator: the ranks of a group that move and add memory of their devices, in the order of a stream.
//
// An operation is queued on its view's stream and the call returns: nothing here waits for a device. Views are device
// memory, with the same count and type on every rank; all views of one call have the same stream. Every rank calls the
// same operations in the same order, whatever their streams. One thread uses a communicator at a time.
//
// Who died, or failed, must not leave the others waiting on the device, where no time-out reaches: when the alarm of
// the host group is raised, operations under way end at once, with whatever is in their buffers by then; the next call
// here, or the next operation of the host group, throws PeerError. What such numbers did to weights by then is never
// kept, because ranks meet before anything is evaluated or written. The communicator cannot be used after that.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "paceline/comm/operation.h"
#include "paceline/core/tensor_view.h"

namespace paceline {

class DeviceCommunicator {
 public:
  DeviceCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~DeviceCommunicator() = default;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Every rank's `data` becomes the sum (max, min) over the ranks: the same bits on all.
  void all_reduce(const TensorView& data, ReduceOp op);
  // Rank r's `mine` becomes the sum over the ranks of the r-th part of `all`. REQUIRES: all.count == size() *
  // mine.count; `mine` is that part of `all` itself, or overlaps none of it.
  void reduce_scatter(const TensorView& all, const TensorView& mine, ReduceOp op);
  // `all` becomes every rank's `mine`, in rank order. REQUIRES: as above
  void all_gather(const TensorView& mine, const TensorView& all);
  void broadcast(const TensorView& data, int root);
  // Both ends are in it until the message is through: who sends and receives at the same time does so together().
  void send(const TensorView& data, int to);
  void receive(const TensorView& data, int from);
  // What `body` calls here is one operation, whose parts proceed at the same time.
  virtual void together(const std::function<void()>& body) = 0;

  // The ranks that gave the same colour, in the order of their keys. Every rank calls it, with 0 or more.
  virtual std::unique_ptr<DeviceCommunicator> split(int color, int key) = 0;

  // For people: what is unusual about it. Empty: nothing.
  virtual std::string remark() const { return {}; }

 protected:
  virtual void do_all_reduce(const TensorView& data, ReduceOp op) = 0;
  virtual void do_reduce_scatter(const TensorView& all, const TensorView& mine, ReduceOp op) = 0;
  virtual void do_all_gather(const TensorView& mine, const TensorView& all) = 0;
  virtual void do_broadcast(const TensorView& data, int root) = 0;
  virtual void do_send(const TensorView& data, int to) = 0;
  virtual void do_receive(const TensorView& data, int from) = 0;

 private:
  int rank_;
  int size_;
};

}  // namespace paceline
