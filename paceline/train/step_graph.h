// StepGraph: what a function launches on a CUDA device, recorded once and launched again as one piece.
//
// A step of a small network is a thousand short kernels, and the host needs longer to launch them than the device to
// run them. A recording has no host in it: it must not wait for the device, and every address in it stays.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>

namespace paceline {

class StepGraph {
 public:
  // In builds with CUDA, on a CUDA device.
  static bool is_possible(torch::Device device);

  // Calls `body` once, which launches nothing now. Tensors that it makes keep their memory while this lives; graphs
  // that share memory (`beside`, may be null) must not need each other's results. Throws TrainingError when something
  // in the body cannot be recorded; our own errors pass as they are. REQUIRES: is_possible(), a current stream other
  // than the device's default.
  StepGraph(torch::Device device, const StepGraph* beside, const std::function<void()>& body);
  ~StepGraph();

  void replay() const;  // on the current stream

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

// Has a stream of its own as the current one while it lives; what was launched before happens before, and what is
// launched afterwards happens afterwards. On the CPU it does nothing.
class StepStream {
 public:
  explicit StepStream(torch::Device device);
  ~StepStream();

 private:
  struct Switched;
  std::unique_ptr<Switched> switched_;
};

}  // namespace paceline
