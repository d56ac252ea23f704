// Outlet: a descriptor that is written to without ever waiting for its reader. What the reader has not taken is kept
// here: who produces without end asks full() first.
#pragma once

#include <string>
#include <string_view>

#include "paceline/launch/poll_loop.h"

namespace paceline {

class Outlet {
 public:
  // The descriptor stays its owner's. It need not be non-blocking: it may be shared with other programs.
  Outlet(PollLoop& loop, int descriptor);
  ~Outlet() { loop_.forget(descriptor_); }
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;

  void write(std::string_view bytes);
  bool empty() const { return kept_.empty(); }
  bool full() const { return kept_.size() - taken_ > kFullBytes; }
  bool broken() const { return broken_; }  // nobody reads any more: what is written is dropped

 private:
  static constexpr size_t kFullBytes = 1 << 20;
  void write_some();

  PollLoop& loop_;
  int descriptor_;
  size_t piece_bytes_;  // that a ready descriptor takes without waiting
  std::string kept_;
  size_t taken_ = 0;  // bytes of `kept_` that were written: erased now and then, as each time costs all that follow
  bool broken_ = false;
};

}  // namespace paceline
