// A fixed number of threads that run tasks in the order in which they were submitted.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "paceline/core/bounded_queue.h"

namespace paceline {

class ThreadPool {
 public:
  // A task that throws ends the process: catch inside, where the error can be told to whoever waits.
  using Task = std::function<void()>;

  explicit ThreadPool(int threads, size_t queue_capacity = 1024) : tasks_(queue_capacity) {
    CHECK_GT(threads, 0);
    try {
      for (int i = 0; i < threads; ++i) {
        threads_.emplace_back([this] {
          while (auto task = tasks_.pop()) (*task)();
        });
      }
    } catch (...) {  // no more threads to be had: the ones that started must end, or joining them waits for ever
      tasks_.close();
      throw;
    }
  }

  // Runs what was submitted, then ends the threads.
  ~ThreadPool() { tasks_.close(); }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Waits while the queue is full.
  void submit(Task task) { CHECK_TRUE(tasks_.push(std::move(task)), "the pool is closing"); }

  int size() const { return static_cast<int>(threads_.size()); }

 private:
  BoundedQueue<Task> tasks_;
  std::vector<std::jthread> threads_;  // after the queue: joined before it goes
};

}  // namespace paceline
