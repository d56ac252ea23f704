// Strand: tasks that are done one after the other, in the order in which they were posted: on a thread of its own, or
// on those of whoever posts (one of them at a time; nobody waits for another's task, it is left to who is at work).
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace paceline {

class Strand {
 public:
  enum class Runs { own_thread, callers };
  // `failed` is told what a task threw; nothing is done after that.
  Strand(Runs runs, std::function<void(std::exception_ptr)> failed);
  ~Strand();

  void post(std::function<void()> task);  // also from a task
  // The task under way is finished, others are forgotten. Not from a task.
  void stop();

 private:
  void work(std::unique_lock<std::mutex>& lock);  // until nothing is left

  const std::function<void(std::exception_ptr)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool working_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace paceline
