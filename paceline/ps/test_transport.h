// For tests: a handler that writes down what happens, and messages with bodies that can be told apart.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/ps/transport.h"

namespace paceline {

inline Message test_message(const std::string& head, size_t body_bytes, unsigned seed = 0) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(body_bytes);
  for (size_t i = 0; i < body_bytes; ++i) (*bytes)[i] = static_cast<std::byte>((i * 31 + i / 257 + seed) & 0xff);
  return {head, Body(std::span<const std::byte>(*bytes), bytes)};
}

inline std::vector<std::byte> bytes_of(const Body& body) {
  std::vector<std::byte> bytes(body.size());
  body.copy_to(bytes);
  return bytes;
}

// The text of the PeerError (or another of ours) that `call` throws; empty when it throws none.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& failure) {
    return failure.what();
  }
  return "";
}

class RecordingHandler : public ConnectionHandler {
 public:
  using Answer = std::function<void(const std::shared_ptr<Connection>&, Message)>;
  explicit RecordingHandler(Answer answer = nullptr) : answer_(std::move(answer)) {}

  void opened(const std::shared_ptr<Connection>& connection) override {
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    changed_.notify_all();
  }
  void received(const std::shared_ptr<Connection>& connection, Message message) override {
    if (answer_) answer_(connection, std::move(message));
    const std::lock_guard lock(mutex_);
    ++received_;
    changed_.notify_all();
  }
  void closed(const std::shared_ptr<Connection>& connection, const std::string& why) override {
    const std::lock_guard lock(mutex_);
    closed_.emplace(connection, why);
    changed_.notify_all();
  }

  // Waits for the index-th connection that was opened.
  std::shared_ptr<Connection> connection(size_t index) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return connections_.size() > index; });
    return connections_[index];
  }
  std::string why_closed(size_t index) {
    const std::shared_ptr<Connection> which = connection(index);
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return closed_.contains(which); });
    return closed_.find(which)->second;
  }
  size_t opened_count() {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }
  size_t closed_count() {
    const std::lock_guard lock(mutex_);
    return closed_.size();
  }
  int await_received(int count) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return received_ >= count; });
    return received_;
  }

 private:
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    if (!changed_.wait_for(lock, std::chrono::seconds(20), condition)) throw PeerError("waited for nothing");
  }

  const Answer answer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::multimap<std::shared_ptr<Connection>, std::string> closed_;
  int received_ = 0;
};

inline RecordingHandler::Answer echo() {
  return [](const std::shared_ptr<Connection>& connection, Message message) { connection->send(std::move(message)); };
}

}  // namespace paceline
