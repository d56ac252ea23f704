#include "paceline/ps/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/core/wire.h"

namespace paceline {
namespace {

constexpr uint64_t kMostCounted = uint64_t{1} << 53;  // what a double holds exactly; no run counts further
constexpr uint64_t kMostSamples = uint64_t{1} << 40;  // of one gradient, as the policies take it
constexpr size_t kFingerprintBytes = 64;
constexpr size_t kMostRunBytes = 200;
constexpr size_t kMostSettingsBytes = 16 * 1024;
constexpr size_t kMostStateBytes = 100;
constexpr size_t kMostMetricsBytes = 32 * 1024;

[[noreturn]] void cannot_be_understood(const char* why) {
  throw PeerError(fmt::format("a message cannot be understood ({}): do all processes run the same version?", why));
}

// A head's layout is written down once (the fields() below) for both directions: `Io` is a WireWriter or a WireReader,
// and `T` is const where it writes.

template <class Io, class T>
void count(Io& io, T& value, uint64_t least = 0, uint64_t most = kMostCounted) {
  static_assert(sizeof(T) == 8);
  io.values(value);
  io.refuse_if(value < least || value > most, "a number is out of range");
}

template <class Io, class T>
void id(Io& io, T& value) {  // of a worker, a shard, a share
  static_assert(sizeof(T) == 4);
  io.values(value);
  io.refuse_if(value < 0, "a number of a worker or shard is negative");
}

// ---- what heads have in common ----

template <class Io, class T>
void push_news(Io& io, T& push) {
  count(io, push.sequence, 1);
  count(io, push.version);
  count(io, push.samples, 1, kMostSamples);
  io.values(push.rate);
  io.refuse_if(!std::isfinite(push.rate) || push.rate < 0, "a rate is not finite or negative");
}

template <class Io, class T>
void elements(Io& io, T& head) {
  count(io, head.offset);
  count(io, head.count);
  io.values(head.last);
}

template <class Io, class T>
void lease(Io& io, T& lease) {
  count(io, lease.number);
  count(io, lease.step);
  count(io, lease.cursor_samples);
  count(io, lease.global_count);
  id(io, lease.share);
  count(io, lease.range.epoch);
  count(io, lease.range.begin);
  count(io, lease.range.end);
  io.refuse_if(lease.range.begin >= lease.range.end, "an assignment has no samples");
  io.refuse_if(lease.range.size() > lease.global_count, "an assignment is larger than its batch");
}

// ---- the heads ----

template <class T, class Head>
concept Either = std::is_same_v<std::remove_const_t<T>, Head>;

template <class Io, Either<HelloHead> T>
void fields(Io& io, T& head) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  io.values(head.role, head.protocol);
  if (Io::kReads && head.protocol != kServerProtocol)  // what follows may lie differently
    throw PeerError(fmt::format("the other process speaks protocol {}, this one {}: run the same version everywhere",
                                head.protocol, kServerProtocol));
  id(io, head.id);
  io.values(head.incarnation);
  count(io, head.executed);
  io.text(head.fingerprint, kFingerprintBytes);
  io.text(head.run, kMostRunBytes);
  io.values(head.history);
  io.text(head.settings, kMostSettingsBytes);
  io.refuse_if(head.fingerprint.size() != kFingerprintBytes || !std::ranges::all_of(head.fingerprint, is_hex),
               "the model's fingerprint is none");
}
template <class Io, Either<WelcomeHead> T>
void fields(Io& io, T& head) {
  id(io, head.shard);
  id(io, head.shards);
  count(io, head.version);
  io.values(head.history);
  io.refuse_if(head.shard >= head.shards, "a shard that there is not");
}
template <class Io, class T>
requires Either<T, JoinHead> || Either<T, HeartbeatHead> || Either<T, LeaveHead> || Either<T, StatisticsHead>
void fields(Io&, T&) {}
template <class Io, Either<PushHead> T>
void fields(Io& io, T& head) {
  push_news(io, head.push);
  elements(io, head);
}
template <class Io, Either<GoHead> T>
void fields(Io& io, T& head) {
  io.values(head.over);
  if (head.over) return;
  count(io, head.assignment.version);
  count(io, head.assignment.sequence, 1);
  lease(io, head.assignment.lease);
  count(io, head.index);
}
template <class Io, Either<ParametersHead> T>
void fields(Io& io, T& head) {
  count(io, head.version);
  count(io, head.index, 1);
  elements(io, head);
}
template <class Io, Either<CommandHead> T>
void fields(Io& io, T& head) {
  std::array<std::byte, kCommandBytes> bytes = {};
  if constexpr (!Io::kReads) bytes = to_bytes(head.command);
  io.values(bytes);
  if constexpr (Io::kReads) head.command = command_from(bytes);
}
template <class Io, Either<StagedHead> T>
void fields(Io& io, T& head) {
  id(io, head.worker);
  push_news(io, head.push);
}
template <class Io, Either<ReportHead> T>
void fields(Io& io, T& head) {
  count(io, head.report.index, 1);
  // Norms and noise are not judged: those of a run that diverges are not finite.
  auto& noise = head.report.noise;
  io.values(noise.samples, noise.samples_squared, noise.mean_norm2, noise.spread);
  count(io, head.load.bytes_in);
  count(io, head.load.bytes_out);
  io.values(head.load.busy_s);
}
template <class Io, class T>
requires Either<T, NormsHead> || Either<T, WholeNormsHead>
void fields(Io& io, T& head) { count(io, head.index, 1); }
template <class Io, Either<ForgetHead> T>
void fields(Io& io, T& head) {
  id(io, head.worker);
}
template <class Io, Either<ObserveHead> T>
void fields(Io& io, T& head) {
  io.values(head.weights, head.states);
}
template <class Io, Either<SnapshotHead> T>
void fields(Io& io, T& head) {
  count(io, head.version);
  count(io, head.index, 1);
  count(io, head.steps);
  io.values(head.rate);
  io.text(head.state, kMostStateBytes);
  elements(io, head);
}
template <class Io, Either<NewsHead> T>
void fields(Io& io, T& head) {
  count(io, head.index);
  count(io, head.used_samples);
  count(io, head.steps);
  count(io, head.first_update);
  io.values(head.over);
  io.text(head.metrics, kMostMetricsBytes);
}

template <class Io, Either<MissingHead> T>
void fields(Io& io, T& head) {
  id(io, head.worker);
  count(io, head.sequence);
}

template <size_t kKind = 0>
Head read(size_t kind, WireReader& reader) {
  if constexpr (kKind == std::variant_size_v<Head>) {
    throw ProtocolError(fmt::format("it is of the unknown kind {}", kind));
  } else {
    if (kind != kKind) return read<kKind + 1>(kind, reader);
    std::variant_alternative_t<kKind, Head> head;
    fields(reader, head);
    return head;
  }
}

}  // namespace

Body body_of(std::vector<SquaredNorms> norms) {
  const auto kept = std::make_shared<const std::vector<SquaredNorms>>(std::move(norms));
  return {std::as_bytes(std::span(*kept)), kept};
}

std::vector<SquaredNorms> norms_from(const Body& body) {
  static_assert(sizeof(SquaredNorms) == 2 * sizeof(double) && std::is_trivially_copyable_v<SquaredNorms>);
  if (body.size() % sizeof(SquaredNorms) != 0 || body.size() / sizeof(SquaredNorms) > kMostNorms)
    cannot_be_understood("its body has no norms");
  std::vector<SquaredNorms> norms(body.size() / sizeof(SquaredNorms));
  body.copy_to(std::as_writable_bytes(std::span(norms)));
  return norms;
}

std::string to_wire(const Head& head) {
  WireWriter writer;
  writer.values(static_cast<uint8_t>(head.index()));
  std::visit([&](const auto& of_its_kind) { fields(writer, of_its_kind); }, head);
  return writer.take();
}

Head head_from(std::string_view wire) {
  try {
    WireReader reader(wire);
    uint8_t kind = 0;
    reader.values(kind);
    Head head = read(kind, reader);
    reader.finish();
    return head;
  } catch (const ProtocolError& error) {
    cannot_be_understood(error.what());
  }
}

}  // namespace paceline
