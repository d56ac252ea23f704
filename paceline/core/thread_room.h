// For libraries that wait for ever, or abort, where the machine gives them no thread or no memory. gRPC is one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace paceline {

// Starts `count` threads at once and ends them: throws std::system_error, which resource_failure() puts into a
// sentence, where so many cannot be started. Where the address space is limited (ulimit -v), all threads share one heap
// from then on, because a heap of its own takes 64 MiB of addresses for each; that costs time where several allocate at
// once. Takes half a millisecond.
void require_threads(int count);

// Ends the process with a sentence and ExitCode::file where it lives longer than `most_ms`. Around calls that are
// quick, or never return.
class StartDeadline {
 public:
  // `what` has begun and does not end: "gRPC". The text must outlive this.
  StartDeadline(const char* what, int64_t most_ms);
  ~StartDeadline();
  StartDeadline(const StartDeadline&) = delete;
  StartDeadline& operator=(const StartDeadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace paceline
