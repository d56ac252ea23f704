// Work: an operation that has begun. Wait for it before its buffer is used again.
#pragma once

#include <cstdint>

namespace paceline {

class Work {
 public:
  // What an engine does for its works. `ticket` is the engine's own way to know which.
  class Engine {
   public:
    virtual void finish(uint64_t ticket) = 0;  // waits; throws PeerError
    virtual bool poll(uint64_t ticket) = 0;    // makes progress; true when done, after which finish() returns at once
   protected:
    ~Engine() = default;
  };

  Work() = default;  // nothing to wait for
  Work(Engine* engine, uint64_t ticket) : engine_(engine), ticket_(ticket) {}

  // Returns when the operation is complete. Throws PeerError when it cannot be, within the group's time-out.
  // Call it once (or let done() have said so): engines forget works that were waited for.
  void wait() {
    if (Engine* engine = engine_) {
      engine_ = nullptr;
      engine->finish(ticket_);
    }
  }
  bool done() { return engine_ == nullptr || engine_->poll(ticket_); }

 private:
  Engine* engine_ = nullptr;
  uint64_t ticket_ = 0;
};

}  // namespace paceline
