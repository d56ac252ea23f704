// Outbox: bytes that wait until a socket takes them. What is sent to many is kept once.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "paceline/rendezvous/socket.h"

namespace paceline {

class Outbox {
 public:
  using Bytes = std::shared_ptr<const std::string>;

  void add(Bytes bytes) {
    waiting_bytes_ += bytes->size();
    if (!bytes->empty()) waiting_.push_back(std::move(bytes));
  }
  void add(std::string bytes) { add(std::make_shared<const std::string>(std::move(bytes))); }

  bool empty() const { return waiting_.empty(); }
  size_t waiting_bytes() const { return waiting_bytes_; }

  // Sends what the socket takes without waiting; false when the other end is gone.
  bool flush(const Descriptor& socket) {
    while (!waiting_.empty()) {
      std::array<std::string_view, kPieces> pieces;
      const size_t count = std::min(kPieces, waiting_.size());
      for (size_t i = 0; i < count; ++i) pieces[i] = *waiting_[i];
      pieces[0].remove_prefix(sent_);
      size_t sent = 0;
      const Transfer transfer = write_some(socket, {pieces.data(), count}, sent);
      if (transfer != Transfer::some) return transfer == Transfer::none;
      forget(sent);
    }
    return true;
  }

 private:
  static constexpr size_t kPieces = 64;  // sent together

  void forget(size_t bytes) {
    waiting_bytes_ -= bytes;
    bytes += sent_;
    for (; !waiting_.empty() && bytes >= waiting_.front()->size(); waiting_.pop_front())
      bytes -= waiting_.front()->size();
    sent_ = bytes;
  }

  std::deque<Bytes> waiting_;
  size_t sent_ = 0;  // of the first
  size_t waiting_bytes_ = 0;
};

}  // namespace paceline
