// Memory: bytes that a group gave out, given back when this goes. Aligned for every vector instruction, zeroed.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "paceline/core/tensor_view.h"

namespace paceline {

class Memory {
 public:
  Memory() = default;
  Memory(void* data, size_t bytes, std::function<void()> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        release_(std::exchange(other.release_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Memory() {
    if (release_) release_();
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // The first `count` elements. REQUIRES: they fit.
  TensorView view(size_t count, DType dtype) const {
    CHECK_LE(count * size_of(dtype), bytes_);
    return {data_, count, dtype};
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::function<void()> release_;
};

// Private memory of this process; throws std::bad_alloc.
Memory allocate_private(size_t bytes);

}  // namespace paceline
