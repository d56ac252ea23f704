#include "paceline/rendezvous/store_protocol.h"

#include <fmt/format.h>

namespace paceline {
namespace {

constexpr size_t kHeadBytes = 5;         // length and kind
constexpr size_t kKeptBytes = 1 << 20;   // of room that a long frame needed
constexpr size_t kReservedPerByte = 64;  // room made for a frame in advance, per byte of it that has arrived

std::string prove(const Secret& secret, const char* end, const std::string& server_nonce, const Hello& hello) {
  const std::string who =
      fmt::format("rank {} generation {} watching {}", hello.rank, hello.generation, hello.watching);
  return secret.prove({end, server_nonce, hello.nonce, who});
}

std::string encode_head(FrameKind kind, size_t field_bytes) {
  return wire_bytes(static_cast<uint32_t>(field_bytes + 1), kind);
}

}  // namespace

std::string client_proof(const Secret& secret, const std::string& server_nonce, const Hello& hello) {
  return prove(secret, "client", server_nonce, hello);
}
std::string server_proof(const Secret& secret, const std::string& server_nonce, const Hello& hello) {
  return prove(secret, "server", server_nonce, hello);
}

std::string encode_value_head(uint64_t request, size_t value_bytes) {
  const std::string before = wire_bytes(request, static_cast<uint32_t>(value_bytes));
  return encode_head(FrameKind::value, before.size() + value_bytes) + before;
}

News to_wire(const StoreNews& news) {
  News wire{news.kind, news.rank, news.text, news.group, {}};
  for (const RankStatus& status : news.statuses) wire.statuses.push_back({status});
  return wire;
}

StoreNews from_wire(News wire) {
  StoreNews news{wire.kind, wire.rank, std::move(wire.text), std::move(wire.group), {}};
  for (StatusFields& fields : wire.statuses) news.statuses.push_back(std::move(fields.status));
  return news;
}

std::string encode_frame(FrameKind kind, std::string fields) { return encode_head(kind, fields.size()) + fields; }

std::optional<Frame> FrameReader::next() {
  const std::string_view left = std::string_view(input_).substr(begin_);
  if (left.size() < kHeadBytes) return {};
  uint32_t bytes = 0;
  WireReader(left).values(bytes);
  if (bytes < 1 || bytes > most_bytes_) throw ProtocolError(fmt::format("a frame of {} bytes", bytes));
  const auto kind = static_cast<uint8_t>(left[4]);
  if (kind > static_cast<uint8_t>(FrameKind::news)) throw ProtocolError(fmt::format("a frame of kind {}", kind));
  if (left.size() < bytes + size_t{4}) {
    // Else a long frame would be copied each time it doubles. A length alone makes no room: a peer may lie.
    if (left.size() >= bytes / kReservedPerByte) input_.reserve(begin_ + bytes + 4);
    return {};
  }
  Frame frame{static_cast<FrameKind>(kind), std::string(left.substr(kHeadBytes, bytes - 1))};
  begin_ += bytes + size_t{4};
  if (begin_ == input_.size()) {
    input_.clear();
    if (input_.capacity() > kKeptBytes) input_.shrink_to_fit();
    begin_ = 0;
  } else if (begin_ > input_.size() / 2) {
    input_.erase(0, begin_);
    begin_ = 0;
  }
  return frame;
}

}  // namespace paceline
