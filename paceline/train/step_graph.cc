#include "paceline/train/step_graph.h"

#include <fmt/format.h>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

#ifdef PACELINE_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace paceline {

#ifdef PACELINE_CUDA

struct StepGraph::Recorded {
  at::cuda::CUDAGraph graph;
};

bool StepGraph::is_possible(torch::Device device) { return device.is_cuda(); }

StepGraph::StepGraph(torch::Device, const StepGraph* beside, const std::function<void()>& body)
    : recorded_(std::make_unique<Recorded>()) {
  at::cuda::CUDAGraph& graph = recorded_->graph;
  c10::cuda::CUDACachingAllocator::emptyCache();  // the same step has run before: its memory is to serve again
  // Other threads (that load data) may do as they like meanwhile.
  graph.capture_begin(beside != nullptr ? beside->recorded_->graph.pool() : c10::MempoolId_t{0, 0},
                      cudaStreamCaptureModeThreadLocal);
  try {
    body();
    graph.capture_end();
  } catch (const std::exception& error) {
    try {
      graph.capture_end();
    } catch (const std::exception&) {  // of course: it is what went wrong before
    }
    if (dynamic_cast<const Error*>(&error) != nullptr) throw;  // a rank that died, say: no fault of the recording's
    throw TrainingError(
        fmt::format("the step could not be recorded as a CUDA graph; set train.graph = \"never\": {}", error.what()));
  }
}

StepGraph::~StepGraph() = default;

void StepGraph::replay() const { recorded_->graph.replay(); }

struct StepStream::Switched {
  explicit Switched(c10::cuda::CUDAStream own)
      : outer(c10::cuda::getCurrentCUDAStream(own.device_index())), guard(own) {
    between.record(outer);
    between.block(own);
  }
  ~Switched() {
    try {
      between.record(c10::cuda::getCurrentCUDAStream(outer.device_index()));
      between.block(outer);
    } catch (const std::exception&) {  // the device has failed: whoever noticed first is being told
    }
  }
  c10::cuda::CUDAStream outer;
  at::cuda::CUDAEvent between;
  c10::cuda::CUDAStreamGuard guard;
};

StepStream::StepStream(torch::Device device) {
  if (!device.is_cuda()) return;
  // One for all steps of a thread: memory that one step frees is the next one's only on the same stream.
  thread_local const c10::cuda::CUDAStream own = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index());
  CHECK_EQ(own.device_index(), c10::cuda::getCurrentCUDAStream(device.index()).device_index());
  switched_ = std::make_unique<Switched>(own);
}

#else

struct StepGraph::Recorded {};
struct StepStream::Switched {};

bool StepGraph::is_possible(torch::Device) { return false; }
StepGraph::StepGraph(torch::Device, const StepGraph*, const std::function<void()>&) {
  CHECK_TRUE(false, "this program was built without CUDA");
}
StepGraph::~StepGraph() = default;
void StepGraph::replay() const {}
StepStream::StepStream(torch::Device) {}

#endif

StepStream::~StepStream() = default;

}  // namespace paceline
