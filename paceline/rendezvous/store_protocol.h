// What StoreServer and StoreClient say to each other. A frame: its length (4 bytes, of what follows), its kind (1
// byte), the message's fields (core/wire.h).
//
//   server: Challenge            a nonce
//   client: Hello                who it is, its own nonce, and the proof that it knows the secret
//   server: Welcome or Refusal   the server's proof: a rank does not trust a stranger's server either
//   client: Set -> Stored; Get -> Value, once somebody has set it; Report, Answer, Failure, Farewell: no reply
//   server: News, at any time
#pragma once

#include <optional>

#include "paceline/core/wire.h"
#include "paceline/rendezvous/secret.h"
#include "paceline/rendezvous/store_client.h"

namespace paceline {

enum class FrameKind : uint8_t {
  challenge,
  hello,
  welcome,
  refusal,
  set,
  stored,
  get,
  value,
  report,
  answer,
  failure,
  farewell,
  news
};

constexpr uint32_t kStoreProtocol = 2;        // grows with every change here
constexpr size_t kStrangerFrameBytes = 4096;  // the longest frame before both have proved to know the secret
constexpr size_t kMostKeyBytes = 1024;        // also of a group's name
constexpr size_t kMostValueBytes = 64 << 20;  // of a value, a text
constexpr size_t kFrameBytes = kMostValueBytes + 65'536;  // with its other fields

struct Challenge {
  static constexpr FrameKind kKind = FrameKind::challenge;
  std::string magic = "paceline store";
  uint32_t protocol = kStoreProtocol;
  std::string nonce;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.magic, self.protocol, self.nonce);
  }
};

struct Hello {
  static constexpr FrameKind kKind = FrameKind::hello;
  std::string nonce;
  int32_t rank = 0;
  uint64_t generation = 0;
  bool watching = false;
  std::string proof;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.nonce, self.rank, self.generation, self.watching, self.proof);
  }
};

// The two ends prove different things, or a stranger could send a proof back to where it came from.
std::string client_proof(const Secret& secret, const std::string& server_nonce, const Hello& hello);
std::string server_proof(const Secret& secret, const std::string& server_nonce, const Hello& hello);

struct Welcome {
  static constexpr FrameKind kKind = FrameKind::welcome;
  std::string proof;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.proof);
  }
};

struct Refusal {
  static constexpr FrameKind kKind = FrameKind::refusal;
  std::string why;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.why);
  }
};

struct Set {
  static constexpr FrameKind kKind = FrameKind::set;
  uint64_t request = 0;
  std::string key;
  std::string value;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.request, self.key, self.value);
  }
};

struct Stored {
  static constexpr FrameKind kKind = FrameKind::stored;
  uint64_t request = 0;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.request);
  }
};

struct Get {
  static constexpr FrameKind kKind = FrameKind::get;
  uint64_t request = 0;
  std::string key;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.request, self.key);
  }
};

struct Value {
  static constexpr FrameKind kKind = FrameKind::value;
  uint64_t request = 0;
  std::string value;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.request, self.value);
  }
};
// The frame of a Value up to the bytes of the value: they follow, and are shared by all who get them.
std::string encode_value_head(uint64_t request, size_t value_bytes);

// A RankStatus on the wire.
struct StatusFields {
  RankStatus status;
  template <class Self>
  static auto fields(Self& self) {
    auto& s = self.status;
    return std::tie(s.rank, s.state, s.operation.verb, s.operation.dtype, s.operation.reduce, s.operation.peer,
                    s.operation.count, s.operation.sequence, s.for_ms, s.detail, s.chore, s.chore_ms, s.since_work_ms,
                    s.silent_ms);
  }
};
constexpr RankStatus::State last_of(RankStatus::State) { return RankStatus::State::dead; }
constexpr StoreNews::Kind last_of(StoreNews::Kind) { return StoreNews::Kind::statuses; }
constexpr Verb last_of(Verb) { return Verb::receive; }
constexpr DType last_of(DType) { return DType::u8; }
constexpr ReduceOp last_of(ReduceOp) { return ReduceOp::min; }

struct Report {  // of a stalled rank: the server asks the others
  static constexpr FrameKind kKind = FrameKind::report;
  std::string group;
  std::vector<int32_t> members;  // their world ranks
  StatusFields mine;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.group, self.members, self.mine);
  }
};

struct Answer {  // of a rank that was asked, or leaves
  static constexpr FrameKind kKind = FrameKind::answer;
  std::string group;
  StatusFields mine;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.group, self.mine);
  }
};

struct Failure {
  static constexpr FrameKind kKind = FrameKind::failure;
  std::string text;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.text);
  }
};

struct Farewell {
  static constexpr FrameKind kKind = FrameKind::farewell;
  template <class Self>
  static auto fields(Self&) {
    return std::tuple<>();
  }
};

struct News {
  static constexpr FrameKind kKind = FrameKind::news;
  StoreNews::Kind kind{};
  int32_t rank = 0;
  std::string text;
  std::string group;
  std::vector<StatusFields> statuses;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.kind, self.rank, self.text, self.group, self.statuses);
  }
};
News to_wire(const StoreNews& news);
StoreNews from_wire(News news);

// ---- frames ----
struct Frame {
  FrameKind kind{};
  std::string fields;
};

std::string encode_frame(FrameKind kind, std::string fields);

template <class Message>
std::string encode(const Message& message) {
  return encode_frame(Message::kKind, wire_bytes(message));
}

// Throws ProtocolError: another kind of frame, or not its fields.
template <class Message>
Message decode(const Frame& frame) {
  if (frame.kind != Message::kKind) throw ProtocolError("a message that makes no sense here");
  return wire_value<Message>(frame.fields);
}

// Cuts what comes in into frames. A length is checked before anything is kept for it.
class FrameReader {
 public:
  explicit FrameReader(size_t most_bytes) : most_bytes_(most_bytes) {}
  void set_most_bytes(size_t most_bytes) { most_bytes_ = most_bytes; }

  std::string& input() { return input_; }  // append here
  std::optional<Frame> next();             // throws ProtocolError

 private:
  size_t most_bytes_;
  std::string input_;
  size_t begin_ = 0;  // of what was not yet given out
};

}  // namespace paceline
