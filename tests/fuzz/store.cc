// Frames of the rendezvous store (rendezvous/store_protocol.h), both directions.
//
// Input: whose limit holds (even: a stranger's), how many bytes arrive at once, the stream. What is decoded must come
// back when it is encoded again, and the diagnosis must cope with any status that a message can hold.
#include <vector>

#include "paceline/comm/diagnosis.h"
#include "paceline/rendezvous/store_protocol.h"
#include "tests/fuzz/fuzz.h"

namespace paceline::fuzz {
namespace {

std::vector<Frame> frames_of(std::string_view stream, size_t most_bytes, size_t piece) {
  FrameReader reader(most_bytes);
  std::vector<Frame> frames;
  try {
    while (!stream.empty()) {
      reader.input() += stream.substr(0, piece);
      stream.remove_prefix(std::min(piece, stream.size()));
      while (auto frame = reader.next()) frames.push_back(std::move(*frame));
    }
  } catch (const ProtocolError&) {
  }
  return frames;
}

void use(const News& message) {
  const StoreNews news = from_wire(message);
  require(encode(to_wire(news)) == encode(message), "news are the same on the wire and off it");
  const RankStatus mine = {.rank = 0,
                           .state = RankStatus::State::busy,
                           .operation = {Verb::all_reduce, DType::f32, ReduceOp::sum, -1, 1000, 12},
                           .for_ms = 2000};
  diagnose(news.group, mine, news.statuses, 1000);
}
void use(const Hello& message) {
  const Secret secret("known to both ends");
  require(client_proof(secret, "nonce", message) != server_proof(secret, "nonce", message),
          "proofs differ by their end");
}
template <class Message>
void use(const Message&) {}

template <class Message>
void decode_as(const Frame& frame) {
  if (frame.kind != Message::kKind) return;
  try {
    const auto message = decode<Message>(frame);
    FrameReader reader(kFrameBytes);
    reader.input() = encode(message);
    const auto again = reader.next();
    require(again && encode(decode<Message>(*again)) == encode(message), "what was decoded is encoded as it was");
    use(message);
  } catch (const ProtocolError&) {
  }
}

template <class... Messages>
void decode_as_any(const Frame& frame) {
  (decode_as<Messages>(frame), ...);
}

}  // namespace
}  // namespace paceline::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  std::span<const uint8_t> input(data, size);
  const size_t most_bytes = fuzz::take_byte(input) % 2 == 0 ? kStrangerFrameBytes : kFrameBytes;
  const size_t piece = size_t{fuzz::take_byte(input)} + 1;
  const auto frames = fuzz::frames_of(fuzz::text_of(input), most_bytes, piece);
  const auto whole = fuzz::frames_of(fuzz::text_of(input), most_bytes, size + 1);
  fuzz::require(frames.size() == whole.size(), "frames do not depend on the pieces in which they arrive");
  for (size_t i = 0; i < frames.size(); ++i) {
    fuzz::require(frames[i].kind == whole[i].kind && frames[i].fields == whole[i].fields, "frames are whole");
    fuzz::decode_as_any<Challenge, Hello, Welcome, Refusal, Set, Stored, Get, Value, Report, Answer, Failure, Farewell,
                        News>(frames[i]);
  }
  return 0;
}
