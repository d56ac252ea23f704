// HeldSignals: Ctrl-C and its like as something to poll for, while it lives. Make it before any other thread: they
// inherit that the signals are blocked. Writing to a closed pipe is an error then, not the end of the process. A signal
// that the process was started to ignore stays ignored, here and in its children: under nohup, the terminal's hang-up.
#pragma once

#include <csignal>
#include <optional>

#include "paceline/rendezvous/descriptor.h"

namespace paceline {

class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();  // what came and was not read is dropped
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  int descriptor() const { return signals_.number(); }
  std::optional<int> next();  // SIGINT, SIGTERM or SIGHUP; never waits

 private:
  const sigset_t blocked_;
  sigset_t before_;
  Descriptor signals_;
};

}  // namespace paceline
