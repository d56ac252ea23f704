#include "paceline/ps/command.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "paceline/core/error.h"

namespace paceline {
namespace {

// index, sequence, kind, worker, version, samples, rate, factor, format: eight bytes each but for kind and worker.
constexpr uint64_t kFormat = 1;
constexpr uint64_t kMost = uint64_t{1} << 53;  // what a double holds exactly; no run counts further

class Writer {
 public:
  explicit Writer(std::span<std::byte, kCommandBytes> bytes) : next_(bytes.data()) {}
  void put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) *next_++ = static_cast<std::byte>(value >> (8 * i));
  }

 private:
  std::byte* next_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte, kCommandBytes> bytes) : next_(bytes.data()) {}
  uint64_t take(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= std::to_integer<uint64_t>(*next_++) << (8 * i);
    return value;
  }

 private:
  const std::byte* next_;
};

void refuse_if(bool wrong, const char* what) {
  if (wrong) throw PeerError(fmt::format("these bytes are no command: {}; do all servers run the same version?", what));
}

}  // namespace

std::array<std::byte, kCommandBytes> to_bytes(const Command& command) {
  std::array<std::byte, kCommandBytes> bytes;
  Writer writer(bytes);
  writer.put(command.index, 8);
  writer.put(command.sequence, 8);
  writer.put(static_cast<uint64_t>(command.decision.kind), 4);
  writer.put(static_cast<uint32_t>(command.decision.worker), 4);
  writer.put(command.decision.version, 8);
  writer.put(command.decision.samples, 8);
  writer.put(std::bit_cast<uint64_t>(command.decision.rate), 8);
  writer.put(std::bit_cast<uint64_t>(command.decision.factor), 8);
  writer.put(kFormat, 8);
  return bytes;
}

Command command_from(std::span<const std::byte, kCommandBytes> bytes) {
  using Kind = Decision::Kind;
  Reader reader(bytes);
  Command command;
  Decision& decision = command.decision;
  command.index = reader.take(8);
  command.sequence = reader.take(8);
  const uint64_t kind = reader.take(4);
  decision.worker = static_cast<int32_t>(static_cast<uint32_t>(reader.take(4)));
  decision.version = reader.take(8);
  decision.samples = reader.take(8);
  decision.rate = std::bit_cast<double>(reader.take(8));
  decision.factor = std::bit_cast<double>(reader.take(8));
  refuse_if(reader.take(8) != kFormat, "another format");
  refuse_if(kind > static_cast<uint64_t>(Kind::release), "of an unknown kind");
  decision.kind = static_cast<Kind>(kind);
  refuse_if(command.index == 0 || command.index > kMost, "its number is out of range");
  refuse_if(decision.version > kMost || decision.samples > kMost, "a version or count of samples is out of range");
  refuse_if(!std::isfinite(decision.rate) || decision.rate < 0, "its rate is not finite or negative");
  refuse_if(!std::isfinite(decision.factor), "its factor is not finite");
  refuse_if(decision.worker < (decision.kind == Kind::step ? -1 : 0), "of no worker");
  const bool new_version = decision.kind == Kind::step || decision.kind == Kind::apply;
  refuse_if(new_version && decision.version == 0, "the first version is not the result of a step");
  const bool weighed = decision.kind == Kind::accumulate || decision.kind == Kind::merge_mean;
  refuse_if(weighed && decision.samples == 0, "a gradient of no samples");
  return command;
}

}  // namespace paceline
