// CommunicationThread: runs what is submitted on one thread, in that order, and tells how far it is.
//
// The jobs are kept by whoever made the thread; here they are numbers. So submitting allocates nothing. With
// `threaded` false everything runs within submit(): for those who want no overlap, and for simulators without threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace paceline {

class CommunicationThread {
 public:
  // `run` is called with each submitted number. When it throws, the rest of what was submitted is dropped and
  // whoever waits gets the same.
  CommunicationThread(std::function<void(int job)> run, bool threaded);
  ~CommunicationThread();  // ends after the job under way
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  // Jobs are submitted one after the other: 0, 1, 2 ... `up_to` - 1, then from 0 again after wait_for_all().
  void submit_up_to(int up_to);
  void wait_for_all();
  // Until this job is done, for jobs that are numbered on and on. Throws as wait_for_all() does.
  void wait_for(int job);

 private:
  void loop(const std::stop_token& stop);
  void run_until(int up_to);

  std::function<void(int)> run_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  int submitted_ = 0;  // guarded, as the following
  int done_ = 0;
  int awaited_ = 0;  // how many done jobs somebody waits for; nobody is woken before
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace paceline
