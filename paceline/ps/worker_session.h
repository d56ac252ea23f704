// A worker's side of the conversation with its servers, and what happens when one of them goes away: all connections
// are made anew, the worker joins again, and the coordinator's answer tells whether its last push has to be sent again.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "paceline/codecs/codec.h"
#include "paceline/ps/coverage.h"
#include "paceline/ps/parameter_inbox.h"
#include "paceline/ps/server_call.h"
#include "paceline/ps/worker.h"

namespace paceline {

class ServerWorker::Session {
 public:
  explicit Session(WorkerOptions options);
  ~Session();

  std::optional<Assignment> join(std::span<float> parameters);
  void push_ready(std::span<const float> gradient, uint64_t begin, uint64_t count);
  std::optional<Assignment> push(std::span<const float> gradient, uint64_t samples, double rate,
                                 std::span<float> parameters);
  void send_statistics(std::span<const float> statistics);
  void leave();
  Costs costs() const;

 private:
  struct Push {
    std::span<const float> gradient;
    PushNews news;
  };

  std::optional<Assignment> converse(const Push* push, bool joins, std::span<float> parameters);
  void call_all();  // with patience
  void lost(const PeerError& failure);
  void send_push(const Push& push);
  void send_segment(int shard, const Push& push, uint64_t begin, uint64_t count, bool last);
  void send(int shard, Message message);
  void beat();  // again and again

  const WorkerOptions options_;
  HelloHead hello_;
  std::vector<uint64_t> histories_;  // of each server's state, which must not change
  std::unique_ptr<Codec> codec_;
  ParameterInbox inbox_;
  std::optional<Assignment> assignment_;
  Coverage sent_;  // of the gradient, over these connections
  bool joined_ = false, left_ = false;

  std::optional<int64_t> lost_since_ns_;
  int64_t called_ns_ = 0;
  BackOff back_off_;
  std::string last_failure_;
  Costs costs_;

  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::thread heart_;
};

}  // namespace paceline
