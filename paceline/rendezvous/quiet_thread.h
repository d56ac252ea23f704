// A thread that no signal is delivered to: whoever handles signals does so elsewhere, whichever was started first.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace paceline {

template <class Body>
std::thread start_quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace paceline
