// Watchdog: a thread that hears from the store which ranks died or failed, asks around when an operation lasts too
// long, and raises the alarm. It only reads status cells and talks to the store: it never touches an engine.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "paceline/comm/monitor.h"
#include "paceline/rendezvous/store_client.h"

namespace paceline {

class Watchdog {
 public:
  struct Options {
    std::string server = "rank 0 or the launcher";  // the process that serves the store
    int64_t ask_after_ms = 500;  // an operation that lasts longer is reported, and the others' status asked for
    // Called (on this thread) when a raised alarm has not ended the operation after a grace time, because it hangs in
    // a library's call that nothing can interrupt: writes the flight record and ends the process.
    std::function<void(const std::string& text)> give_up;
    int64_t grace_ms = 2000;
  };
  // `client` is a watching connection.
  Watchdog(std::unique_ptr<StoreClient> client, std::shared_ptr<Monitor> monitor, Options options);
  // Tells the others how far this rank came in the groups that are still there, and says farewell. So it should go
  // before the groups do: then nobody takes a rank for missing that left after the last operation.
  ~Watchdog();

 private:
  class Patrol;
  std::unique_ptr<Patrol> patrol_;
};

}  // namespace paceline
