// Descriptor: an open file, socket or event of the kernel, closed when this goes. WakeUp: an event that ends a poll().
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "paceline/core/check.h"

namespace paceline {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const { return number_; }

 private:
  int number_ = -1;
};

// call() may come from any thread, also from several at once.
class WakeUp {
 public:
  WakeUp() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { CHECK_GE(event_.number(), 0); }

  int descriptor() const { return event_.number(); }  // readable once called

  void call() {
    const uint64_t one = 1;
    CHECK_EQ(::write(event_.number(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  void clear() {
    uint64_t calls = 0;
    [[maybe_unused]] const ssize_t read = ::read(event_.number(), &calls, sizeof calls);  // nothing there: cleared
  }

 private:
  Descriptor event_;
};

}  // namespace paceline
