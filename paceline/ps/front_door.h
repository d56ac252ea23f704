// FrontDoor: accepts a server's connections, and keeps strangers from using up what the process can open.
//
// A connection is kept here until its first bytes have come, and handed on then. It is a stranger until knows() is told
// of its peer. Strangers are closed after a time, and where there are too many, those first that have said nothing, of
// these the oldest: whoever means it speaks at once. Where the process can open nothing more, connections wait in the
// kernel's queue until it can.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "paceline/ps/listener.h"
#include "paceline/ps/refusal_log.h"

namespace paceline {

// How many descriptors of this process are meant for what. Raises the limit of the process as far as is needed and
// allowed.
struct DescriptorBudget {
  size_t strangers = 0;    // each takes two
  size_t connections = 0;  // of peers that are known
};
DescriptorBudget descriptor_budget(size_t connections_wanted);

class FrontDoor {
 public:
  struct Options {
    size_t strangers = 64;                    // at once
    int64_t silence_ms = 10'000;              // what a connection has to send its first byte, and again to become known
    bool local = true;                        // the kernel tells when the other end dies
    std::function<void(int socket)> hand_on;  // which closes it; on the door's thread
  };
  FrontDoor(std::unique_ptr<Listener> listener, Options options, RefusalLog& refusals);  // `refusals` stay
  ~FrontDoor();                                                                          // hands on nothing more

  // The peer, as in "ipv4:10.0.0.3:41234" or "ipv6:%5B::1%5D:41234", has proved that it may be here. From any thread.
  void knows(const std::string& peer);

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace paceline
