// SideStream: a second queue of work on a device, beside the one that computes. On the CPU, where a call returns when
// its work is done, there is nothing to order and all of this does nothing.
//
// Each thread has its own current stream; libtorch sets that of the threads that run backward.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <torch/types.h>

#include <optional>

namespace paceline {

class SideStream {
 public:
  explicit SideStream(torch::Device device);

  void* native() const;  // as the device's own library has it (cudaStream_t); null on the CPU

  // What comes here next begins after all that is on the current stream now. The host does not wait.
  void follow_current();
  // What comes on the current stream next begins after all that is here now. The host does not wait.
  void hold_current();
  // Calls work() with this as the current stream.
  template <class Work>
  void make_current(const Work& work) const {
    c10::OptionalStreamGuard guard;
    if (queue_) guard.reset_stream(queue_->stream);
    work();
  }
  // The memory is used here: when the last tensor on it goes, nobody else gets it before that is over.
  void uses(const torch::Tensor& tensor) const;

 private:
  struct Queue {
    c10::Stream stream;
    c10::Event computed, done;
  };
  torch::Device device_;
  std::optional<Queue> queue_;  // none on the CPU
};

}  // namespace paceline
