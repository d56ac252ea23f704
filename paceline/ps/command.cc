#include "paceline/ps/command.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/core/wire.h"

namespace paceline {
namespace {

constexpr uint64_t kFormat = 1;
constexpr uint64_t kMost = uint64_t{1} << 53;  // what a double holds exactly; no run counts further

void refuse_if(bool wrong, const char* what) {
  if (wrong) throw PeerError(fmt::format("these bytes are no command: {}; do all servers run the same version?", what));
}

// Eight bytes each but for kind and worker, which have four.
template <class Io, class C>
void fields(Io& io, C& command, uint32_t& kind, uint64_t& format) {
  auto& decision = command.decision;
  io.values(command.index, command.sequence, kind, decision.worker, decision.version, decision.samples, decision.rate,
            decision.factor, format);
}

}  // namespace

std::array<std::byte, kCommandBytes> to_bytes(const Command& command) {
  auto kind = static_cast<uint32_t>(command.decision.kind);
  uint64_t format = kFormat;
  WireWriter writer;
  fields(writer, command, kind, format);
  std::array<std::byte, kCommandBytes> bytes;
  const std::string wire = writer.take();
  CHECK_EQ(wire.size(), bytes.size());
  std::memcpy(bytes.data(), wire.data(), bytes.size());
  return bytes;
}

Command command_from(std::span<const std::byte, kCommandBytes> bytes) {
  using Kind = Decision::Kind;
  Command command;
  Decision& decision = command.decision;
  uint32_t kind = 0;
  uint64_t format = 0;
  WireReader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  fields(reader, command, kind, format);
  refuse_if(format != kFormat, "another format");
  refuse_if(kind > static_cast<uint32_t>(Kind::release), "of an unknown kind");
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
