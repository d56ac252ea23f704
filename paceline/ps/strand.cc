#include "paceline/ps/strand.h"

#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {

Strand::Strand(Runs runs, std::function<void(std::exception_ptr)> failed) : failed_(std::move(failed)) {
  if (runs == Runs::callers) return;
  thread_ = start_quiet_thread([this] {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopped_ || !tasks_.empty(); });
      if (stopped_) return;
      work(lock);
    }
  });
}

Strand::~Strand() { stop(); }

void Strand::post(std::function<void()> task) {
  std::unique_lock lock(mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  if (working_) return;
  if (thread_.joinable()) {
    changed_.notify_one();
  } else {
    work(lock);
  }
}

void Strand::work(std::unique_lock<std::mutex>& lock) {
  working_ = true;
  while (!stopped_ && !tasks_.empty()) {
    {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      try {
        task();
      } catch (...) {
        failed_(std::current_exception());
        const std::lock_guard stopping(mutex_);
        stopped_ = true;
      }
    }
    lock.lock();
  }
  working_ = false;
  if (stopped_) tasks_.clear();
  changed_.notify_all();
}

void Strand::stop() {
  {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !working_; });
    tasks_.clear();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace paceline
