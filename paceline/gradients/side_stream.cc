#include "paceline/gradients/side_stream.h"

#include "paceline/precision/device_words.h"

namespace paceline {

SideStream::SideStream(torch::Device device) : device_(device) {
  if (device.is_cpu()) return;
  // Of high priority: a bucket on its way is worth more than the next kernel of backward, which has all the device.
  const c10::impl::VirtualGuardImpl backend(device.type());
  queue_.emplace(Queue{backend.getStreamFromGlobalPool(device, /*isHighPriority=*/true), c10::Event(device.type()),
                       c10::Event(device.type())});
}

void* SideStream::native() const { return queue_ ? queue_->stream.native_handle() : nullptr; }

void SideStream::follow_current() {
  if (!queue_) return;
  queue_->computed.record(current_stream(device_));
  queue_->computed.block(queue_->stream);
}

void SideStream::hold_current() {
  if (!queue_) return;
  queue_->done.record(queue_->stream);
  queue_->done.block(current_stream(device_));
}

void SideStream::uses(const torch::Tensor& tensor) const {
  if (queue_) tensor.record_stream(queue_->stream);
}

}  // namespace paceline
