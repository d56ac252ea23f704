// Messages of a parameter server (ps/protocol.h), both directions: a head, and the body of a gradient's segment or of
// norms.
//
// Input: the codec, the length of the head (2 bytes), the head, the body. A head that is understood is exactly what a
// writer would have written, and so is a body of norms; a gradient's body of the right length decodes to as many
// numbers, whatever its bits are.
#include <algorithm>
#include <cstring>
#include <variant>
#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/core/error.h"
#include "paceline/ps/protocol.h"
#include "tests/fuzz/fuzz.h"

namespace paceline::fuzz {
namespace {

// Those of which a server decodes gradients: recipes choose among the first three, and programs may take onebit.
// Gradients without a codec ("none") are copied.
constexpr const char* kCodecs[] = {"fp16", "bf16", "int8", "onebit"};

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

void read_norms(std::span<const uint8_t> body) {
  const auto bytes = std::as_bytes(body);
  const Body written = body_of(norms_from(Body(bytes, nullptr)));
  require(written.size() == bytes.size(), "norms that are understood are as long as what a writer writes");
  std::vector<std::byte> again(written.size());
  written.copy_to(again);
  require(std::ranges::equal(again, bytes), "norms that are understood are what a writer writes");
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
    if (std::holds_alternative<NormsHead>(head) || std::holds_alternative<WholeNormsHead>(head))
      fuzz::read_norms(input);
  } catch (const PeerError&) {
  }
  return 0;
}
