// For tests: ranks that are real processes, forked from the test, with a store in memory that they share.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "paceline/comm/engine_shm.h"

namespace paceline {

// A few names and values in memory that forked processes share.
class ForkedStore : public Store {
 public:
  ForkedStore() {
    void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = new (memory) Board;
  }
  ~ForkedStore() override { munmap(board_, sizeof(Board)); }

  void set(const std::string& key, const std::string& value) override {
    Entry& entry = board_->entries[board_->used.fetch_add(1)];
    std::strncpy(entry.key, key.c_str(), sizeof(entry.key) - 1);
    std::strncpy(entry.value, value.c_str(), sizeof(entry.value) - 1);
    entry.there.store(true, std::memory_order_release);
  }

  std::string get(const std::string& key, int64_t timeout_ms) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (std::chrono::steady_clock::now() < deadline) {
      for (const Entry& entry : board_->entries)
        if (entry.there.load(std::memory_order_acquire) && key == entry.key) return entry.value;
      sched_yield();
    }
    throw PeerError("nobody set " + key);
  }

 private:
  struct Entry {
    std::atomic<bool> there{false};
    char key[64] = {};
    char value[128] = {};
  };
  struct Board {
    std::atomic<int> used{0};
    Entry entries[64];
  };
  Board* board_;
};

struct ProcessOutcome {
  int status = 0;     // as waitpid gives it
  std::string error;  // what() of the exception that ended it
};

// Forks `ranks` processes, each with its shm group, and waits for them. A body that throws, or returns false, fails.
// In the world they have the numbers from `first_world_rank` on.
inline std::vector<ProcessOutcome> run_processes(int ranks, int64_t timeout_ms, const std::function<bool(Group&)>& body,
                                                 const std::string& job = "test", int first_world_rank = 0) {
  ForkedStore store;
  std::vector<pid_t> processes;
  std::vector<int> pipes;
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t process = fork();
    if (process == 0) {
      std::string error;
      try {
        GroupIdentity identity;
        identity.rank = rank;
        identity.engine = "shm";
        identity.topology = Topology::one_host(ranks);
        identity.world_ranks.resize(ranks);
        std::iota(identity.world_ranks.begin(), identity.world_ranks.end(), first_world_rank);
        const auto group = make_shm_group(identity, std::make_shared<Monitor>(timeout_ms), store, job);
        if (!body(*group)) error = "the body returned false";
      } catch (const std::exception& exception) {
        error = exception.what();
      }
      if (write(ends[1], error.data(), error.size()) < 0) _exit(2);
      _exit(error.empty() ? 0 : 1);
    }
    close(ends[1]);
    processes.push_back(process);
    pipes.push_back(ends[0]);
  }
  std::vector<ProcessOutcome> outcomes(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    char text[4096];
    ssize_t got = 0;
    while ((got = read(pipes[rank], text, sizeof(text))) > 0) outcomes[rank].error.append(text, got);
    close(pipes[rank]);
    waitpid(processes[rank], &outcomes[rank].status, 0);
  }
  return outcomes;
}

}  // namespace paceline
