// What both ends of the gRPC transport agree on: one streaming method, how a message lies in a byte buffer, settings.
//
// On the wire a message is four bytes, little-endian, with the length of its head; the head; the body. A length of
// kGoodbye instead: the client closes, and the rest is its reason. A server closes with the status of the call.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/ps/transport.h"

namespace paceline {

inline constexpr const char* kTransportMethod = "/paceline.Transport/Connect";
inline constexpr const char* kTransportVersionKey = "paceline-transport";  // initial metadata of both sides
inline constexpr const char* kTransportVersion = "1";
inline constexpr const char* kTransportTokenKey = "paceline-token";
inline constexpr uint32_t kGoodbye = 0xffffffff;
inline constexpr int64_t kStartMs = 30'000;  // gRPC takes milliseconds, or for ever where it gets no thread or memory
inline constexpr int64_t kLingerMs = 2'000;  // what a peer has to take what was sent before a close

// Before the first use of gRPC. Throws std::system_error where the process cannot start the threads that gRPC needs.
void require_room_for_grpc();

// The slices of the body let go of `keep` when gRPC is done with them. REQUIRES: head and body within their limits.
grpc::ByteBuffer to_wire(const Message& message);
grpc::ByteBuffer goodbye_to_wire(const std::string& reason);

struct WireMessage {
  std::optional<std::string> goodbye;
  Message message;  // its body keeps the slices that were received
};
// Throws PeerError for what cannot be a message, or is one beyond the limits.
WireMessage from_wire(const grpc::ByteBuffer& bytes, const TransportLimits& limits);

// Throws UsageError for a message that the other side would refuse: head and body beyond the limits.
void check_outgoing(const Message& message, const TransportLimits& limits);

// Messages that wait to be written, and how many bytes those and the one being written are.
class Outgoing {
 public:
  bool empty() const { return waiting_.empty(); }
  bool several() const { return waiting_.size() > 1; }
  size_t bytes() const { return bytes_; }
  void add(grpc::ByteBuffer&& buffer);
  grpc::ByteBuffer take();  // the first; its bytes count until written()
  void written() { bytes_ -= std::exchange(in_flight_, 0); }
  void clear();

 private:
  std::deque<grpc::ByteBuffer> waiting_;
  size_t bytes_ = 0;
  size_t in_flight_ = 0;
};

// Of the token travels only what proves to know it.
std::string token_proof(const std::string& token);
bool same_proof(std::string_view left, std::string_view right);  // in a time that depends on the lengths alone

// The most bytes of a message on the wire.
size_t most_wire_bytes(const TransportLimits& limits);

// Settings of channels and servers alike. `local`: the kernel tells at once when the other process dies; nobody pings.
std::vector<std::pair<std::string, int>> transport_arguments(const TransportLimits& limits, bool local);

// Ends a queue that nobody else looks into.
void shut_down(grpc::CompletionQueue& queue);

}  // namespace paceline
