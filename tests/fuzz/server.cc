// Messages of a parameter server (ps/protocol.h), both directions: a head, and the body of a gradient's segment.
//
// Input: the codec, the length of the head (2 bytes), the head, the body. A head that is understood is exactly what a
// writer would have written; a body of the right length decodes to as many numbers, whatever its bits are.
#include <cstring>
#include <variant>
#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/core/error.h"
#include "paceline/ps/protocol.h"
#include "tests/fuzz/fuzz.h"

namespace paceline::fuzz {
namespace {

constexpr const char* kCodecs[] = {"fp16", "bf16", "int8", "onebit"};  // those that a server takes

void decode_body(const std::string& name, size_t count, std::span<const uint8_t> body) {
  const auto codec = builtin_codecs().at(name)({});
  const size_t bytes = codec->most_bytes(count);
  if (bytes > body.size() || count == 0) return;
  std::vector<float> aligned((bytes + sizeof(float) - 1) / sizeof(float)), values(count);
  const auto wire = std::as_writable_bytes(std::span(aligned)).first(bytes);
  std::memcpy(wire.data(), body.data(), bytes);
  codec->decode(wire, values);
  codec->decode_add(wire, values);
}

}  // namespace
}  // namespace paceline::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  std::span<const uint8_t> input(data, size);
  const char* codec = fuzz::kCodecs[fuzz::take_byte(input) % std::size(fuzz::kCodecs)];
  const size_t head_bytes = fuzz::take_byte(input) | size_t{fuzz::take_byte(input)} << 8;
  const std::string_view wire = fuzz::text_of(fuzz::take(input, head_bytes));
  try {
    const Head head = head_from(wire);
    fuzz::require(to_wire(head) == wire, "a head that is understood is what a writer writes");
    if (const auto* push = std::get_if<PushHead>(&head); push && push->count <= 4096)
      fuzz::decode_body(codec, push->count, input);
  } catch (const PeerError&) {
  }
  return 0;
}
