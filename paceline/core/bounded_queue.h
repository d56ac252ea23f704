// A blocking first-in first-out queue of fixed capacity for any number of threads. Its storage is allocated once.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "paceline/core/check.h"

namespace paceline {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : slots_(capacity) { CHECK_GT(capacity, 0u); }

  // Waits while the queue is full. False when it was closed: the value was not taken.
  bool push(T value) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return count_ < slots_.size() || closed_; });
    if (closed_) return false;
    slots_[(head_ + count_++) % slots_.size()] = std::move(value);
    lock.unlock();
    not_empty_.notify_one();
    return true;
  }

  // Waits while the queue is empty. Nothing when it was closed and everything in it has been taken.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [&] { return count_ > 0 || closed_; });
    if (count_ == 0) return std::nullopt;
    std::optional<T> value(std::move(slots_[head_]));
    slots_[head_] = T{};
    head_ = (head_ + 1) % slots_.size();
    --count_;
    lock.unlock();
    not_full_.notify_one();
    return value;
  }

  // Wakes everybody: pushes are refused from now on, pops drain what is left.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_full_.notify_all();
    not_empty_.notify_all();
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable not_full_, not_empty_;
  std::vector<T> slots_;
  size_t head_ = 0;
  size_t count_ = 0;
  bool closed_ = false;
};

}  // namespace paceline
