#include "paceline/ps/transport_grpc.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>

#include "paceline/core/check.h"
#include "paceline/core/hmac.h"
#include "paceline/core/thread_room.h"

namespace paceline {
namespace {

constexpr size_t kLengthBytes = 4;
static_assert(std::endian::native == std::endian::little);

grpc::Slice opening_slice(uint32_t length, const std::string& text) {
  grpc::Slice slice(kLengthBytes + text.size());
  auto* const bytes = const_cast<uint8_t*>(slice.begin());
  std::memcpy(bytes, &length, kLengthBytes);
  std::memcpy(bytes + kLengthBytes, text.data(), text.size());
  return slice;
}

void let_go(void* keep) { delete static_cast<std::shared_ptr<const void>*>(keep); }

// Slices as one run of bytes, read from the front.
class SliceReader {
 public:
  explicit SliceReader(const std::vector<grpc::Slice>& slices) : slices_(slices) {}

  void read(std::span<char> into) {  // REQUIRES: as many bytes are left
    while (!into.empty()) {
      const grpc::Slice& slice = slices_[next_];
      const size_t bytes = std::min(slice.size() - offset_, into.size());
      std::memcpy(into.data(), slice.begin() + offset_, bytes);
      into = into.subspan(bytes);
      offset_ += bytes;
      if (offset_ == slice.size()) {
        ++next_;
        offset_ = 0;
      }
    }
  }

  std::vector<std::span<const std::byte>> rest() const {
    std::vector<std::span<const std::byte>> pieces;
    pieces.reserve(slices_.size() - next_);
    for (size_t i = next_, skip = offset_; i < slices_.size(); ++i, skip = 0) {
      if (slices_[i].size() == skip) continue;
      pieces.emplace_back(reinterpret_cast<const std::byte*>(slices_[i].begin()) + skip, slices_[i].size() - skip);
    }
    return pieces;
  }

 private:
  const std::vector<grpc::Slice>& slices_;
  size_t next_ = 0;
  size_t offset_ = 0;
};

}  // namespace

void require_room_for_grpc() {
  constexpr int kThreads = 16;  // gRPC has 9 and a worker or server 9 of its own, some of which run already
  static std::once_flag once;
  std::call_once(once, [] { require_threads(kThreads); });
}

grpc::ByteBuffer to_wire(const Message& message) {
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + message.body.pieces().size());
  slices.push_back(opening_slice(static_cast<uint32_t>(message.head.size()), message.head));
  for (const auto& piece : message.body.pieces()) {
    if (piece.empty()) continue;
    slices.emplace_back(const_cast<std::byte*>(piece.data()), piece.size(), &let_go,
                        new std::shared_ptr<const void>(message.body.keep()));
  }
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer goodbye_to_wire(const std::string& reason) {
  const grpc::Slice slice = opening_slice(kGoodbye, reason.substr(0, kMostHeadBytes));
  return {&slice, 1};
}

WireMessage from_wire(const grpc::ByteBuffer& bytes, const TransportLimits& limits) {
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  size_t left = bytes.Length();
  if (left < kLengthBytes || !bytes.Dump(slices.get()).ok()) {
    throw PeerError(fmt::format("a message of {} bytes cannot be one of Paceline's", left));
  }
  SliceReader reader(*slices);
  uint32_t head_bytes = 0;
  reader.read({reinterpret_cast<char*>(&head_bytes), kLengthBytes});
  left -= kLengthBytes;
  const bool goodbye = head_bytes == kGoodbye;
  if (goodbye) head_bytes = static_cast<uint32_t>(std::min(left, kMostHeadBytes));
  if (head_bytes > left || head_bytes > kMostHeadBytes) {
    throw PeerError(fmt::format("a message of {} bytes has a head of {} bytes, where {} are the most", left, head_bytes,
                                kMostHeadBytes));
  }
  std::string head(head_bytes, '\0');
  reader.read(head);
  left -= head_bytes;
  if (goodbye) return {std::move(head), {}};
  if (left > limits.body_bytes) {
    throw PeerError(fmt::format("a message has a body of {} bytes, where {} are the most", left, limits.body_bytes));
  }
  return {std::nullopt, {std::move(head), left == 0 ? Body() : Body(reader.rest(), slices)}};
}

void check_outgoing(const Message& message, const TransportLimits& limits) {
  if (message.head.size() <= kMostHeadBytes && message.body.size() <= limits.body_bytes) return;
  throw UsageError(
      fmt::format("a message with a head of {} and a body of {} bytes cannot be sent; the most are {} and {}",
                  message.head.size(), message.body.size(), kMostHeadBytes, limits.body_bytes));
}

void Outgoing::add(grpc::ByteBuffer&& buffer) {
  bytes_ += buffer.Length();
  waiting_.emplace_back().Swap(&buffer);
}

grpc::ByteBuffer Outgoing::take() {
  CHECK_EQ(in_flight_, 0u);
  grpc::ByteBuffer first;
  first.Swap(&waiting_.front());
  waiting_.pop_front();
  in_flight_ = first.Length();
  return first;
}

void Outgoing::clear() {
  waiting_.clear();
  bytes_ = in_flight_;
}

std::string token_proof(const std::string& token) { return hmac_sha256_hex(token, "paceline transport"); }

bool same_proof(std::string_view left, std::string_view right) {
  unsigned char difference = left.size() == right.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) difference |= left[i] ^ right[i];
  return difference == 0;
}

size_t most_wire_bytes(const TransportLimits& limits) {
  CHECK_LE(limits.body_bytes, size_t{1} << 30);  // gRPC counts in int
  return kLengthBytes + kMostHeadBytes + limits.body_bytes;
}

std::vector<std::pair<std::string, int>> transport_arguments(const TransportLimits& limits, bool local) {
  std::vector<std::pair<std::string, int>> arguments = {
      {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(most_wire_bytes(limits))},
      {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1},  // checked before
      {GRPC_ARG_ENABLE_CHANNELZ, 0},
      {GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0},
      // Chosen over loopback on a busy machine, where no other size was clearly faster. With gRPC's probe of the
      // network instead of a fixed window, bodies of 4 MiB were slower and pulls of 256 KiB faster.
      {GRPC_ARG_HTTP2_BDP_PROBE, 0},
      {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20},
      {GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20},
      {GRPC_ARG_TCP_READ_CHUNK_SIZE, 64 << 10},
      {GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, 4 << 10},
      {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 1 << 20},
  };
  if (!local) {
    // A machine that is gone is noticed after 15 s.
    arguments.insert(arguments.end(), {{GRPC_ARG_KEEPALIVE_TIME_MS, 10'000},
                                       {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000},
                                       {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},  // as many as it takes
                                       {GRPC_ARG_HTTP2_MIN_SENT_PING_INTERVAL_WITHOUT_DATA_MS, 5'000},
                                       {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000}});
  }
  return arguments;
}

void shut_down(grpc::CompletionQueue& queue) {
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace paceline
