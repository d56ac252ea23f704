#include "paceline/gradients/communication_thread.h"

#include <algorithm>
#include <utility>

namespace paceline {

CommunicationThread::CommunicationThread(std::function<void(int)> run, bool threaded) : run_(std::move(run)) {
  if (threaded) thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

CommunicationThread::~CommunicationThread() = default;

void CommunicationThread::loop(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return done_ < submitted_; })) {
    const int job = done_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      run_(job);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      failure_ = failure;
      done_ = submitted_;  // what comes after a failure cannot be right
    } else {
      ++done_;
    }
    if (done_ == submitted_ || done_ == awaited_) changed_.notify_all();
  }
}

void CommunicationThread::submit_up_to(int up_to) {
  if (!thread_.joinable()) {
    for (; submitted_ < up_to; ++submitted_, ++done_) run_(submitted_);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    submitted_ = std::max(submitted_, up_to);
  }
  changed_.notify_all();
}

void CommunicationThread::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == submitted_; });
  submitted_ = done_ = 0;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void CommunicationThread::wait_for(int job) {
  std::unique_lock lock(mutex_);
  awaited_ = job + 1;
  changed_.wait(lock, [&] { return done_ > job || failure_; });
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace paceline
