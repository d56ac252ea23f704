#include "paceline/ps/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr uint64_t kMostCounted = uint64_t{1} << 53;  // what a double holds exactly; no run counts further
constexpr uint64_t kMostSamples = uint64_t{1} << 40;  // of one gradient, as the policies take it
constexpr size_t kFingerprintBytes = 64;
constexpr size_t kMostRunBytes = 200;
constexpr size_t kMostSettingsBytes = 16 * 1024;
constexpr size_t kMostStateBytes = 100;
constexpr size_t kMostMetricsBytes = 32 * 1024;

void refuse_if(bool wrong, const char* what) {
  if (wrong)
    throw PeerError(
        fmt::format("a message's head cannot be understood: {}; do all processes run the same version?", what));
}

// A head's layout is written down once (the fields() below) and walked by one of these two, so both directions agree.
class HeadWriter {
 public:
  static constexpr bool kReads = false;

  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) wire_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void text(const std::string& value, size_t most) {
    CHECK_LE(value.size(), most);
    number(value.size(), 4);
    wire_ += value;
  }
  void raw(const std::byte* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) wire_.push_back(static_cast<char>(bytes[i]));
  }
  std::string take() { return std::move(wire_); }

 private:
  std::string wire_;
};

class HeadReader {
 public:
  static constexpr bool kReads = true;
  explicit HeadReader(std::string_view wire) : rest_(wire) {}

  uint64_t number(int bytes) {
    need(static_cast<size_t>(bytes));
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value |= uint64_t{static_cast<unsigned char>(rest_[static_cast<size_t>(i)])} << (8 * i);
    rest_.remove_prefix(static_cast<size_t>(bytes));
    return value;
  }
  std::string text(size_t most) {
    const uint64_t size = number(4);
    refuse_if(size > most, "a text is too long");
    need(size);
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  void raw(std::byte* bytes, size_t count) {
    need(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(rest_[i]);
    rest_.remove_prefix(count);
  }
  size_t left() const { return rest_.size(); }

 private:
  void need(size_t bytes) const { refuse_if(rest_.size() < bytes, "it is too short"); }

  std::string_view rest_;
};

// ---- single values: `Io` is one of the two, `T` const where it writes ----

template <class Io, class T>
void count(Io& io, T& value, uint64_t least = 0, uint64_t most = kMostCounted) {
  if constexpr (Io::kReads) {
    value = io.number(8);
    refuse_if(value < least || value > most, "a number is out of range");
  } else {
    io.number(value, 8);
  }
}

template <class Io, class T>
void any_bits(Io& io, T& value) {
  if constexpr (Io::kReads)
    value = io.number(8);
  else
    io.number(value, 8);
}

template <class Io, class T>
void id(Io& io, T& value) {  // of a worker, a shard, a share
  if constexpr (Io::kReads) {
    value = static_cast<int32_t>(static_cast<uint32_t>(io.number(4)));
    refuse_if(value < 0, "a number of a worker or shard is negative");
  } else {
    io.number(static_cast<uint32_t>(value), 4);
  }
}

// Norms and noise may be what they are: of a run that diverges they are not finite.
template <class Io, class T>
void real(Io& io, T& value) {
  if constexpr (Io::kReads)
    value = std::bit_cast<double>(io.number(8));
  else
    io.number(std::bit_cast<uint64_t>(value), 8);
}

template <class Io, class T>
void flag(Io& io, T& value) {
  if constexpr (Io::kReads) {
    const uint64_t byte = io.number(1);
    refuse_if(byte > 1, "neither yes nor no");
    value = byte == 1;
  } else {
    io.number(value ? 1 : 0, 1);
  }
}

template <class Io, class T>
void text(Io& io, T& value, size_t most) {
  if constexpr (Io::kReads)
    value = io.text(most);
  else
    io.text(value, most);
}

// ---- what heads have in common ----

template <class Io, class T>
void push_news(Io& io, T& push) {
  count(io, push.sequence, 1);
  count(io, push.version);
  count(io, push.samples, 1, kMostSamples);
  real(io, push.rate);
  if constexpr (Io::kReads) refuse_if(!std::isfinite(push.rate) || push.rate < 0, "a rate is not finite or negative");
}

template <class Io, class T>
void elements(Io& io, T& head) {
  count(io, head.offset);
  count(io, head.count);
  flag(io, head.last);
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
  if constexpr (Io::kReads) {
    refuse_if(lease.range.begin >= lease.range.end, "an assignment has no samples");
    refuse_if(lease.range.size() > lease.global_count, "an assignment is larger than its batch");
  }
}

// ---- the heads ----

template <class T, class Head>
concept Either = std::is_same_v<std::remove_const_t<T>, Head>;

template <class Io, Either<HelloHead> T>
void fields(Io& io, T& head) {
  if constexpr (Io::kReads) {
    const uint64_t role = io.number(1);
    refuse_if(role > static_cast<uint64_t>(PeerRole::shard), "an unknown role");
    head.role = static_cast<PeerRole>(role);
    head.protocol = static_cast<uint32_t>(io.number(4));
    if (head.protocol != kServerProtocol)  // what follows may lie differently
      throw PeerError(fmt::format("the other process speaks protocol {}, this one {}: run the same version everywhere",
                                  head.protocol, kServerProtocol));
  } else {
    io.number(static_cast<uint64_t>(head.role), 1);
    io.number(head.protocol, 4);
  }
  id(io, head.id);
  any_bits(io, head.incarnation);
  count(io, head.executed);
  text(io, head.fingerprint, kFingerprintBytes);
  text(io, head.run, kMostRunBytes);
  any_bits(io, head.history);
  text(io, head.settings, kMostSettingsBytes);
  if constexpr (Io::kReads) {
    const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    refuse_if(head.fingerprint.size() != kFingerprintBytes || !std::ranges::all_of(head.fingerprint, is_hex),
              "the model's fingerprint is none");
  }
}
template <class Io, Either<WelcomeHead> T>
void fields(Io& io, T& head) {
  id(io, head.shard);
  id(io, head.shards);
  count(io, head.version);
  any_bits(io, head.history);
  if constexpr (Io::kReads) refuse_if(head.shard >= head.shards, "a shard that there is not");
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
  flag(io, head.over);
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
  std::array<std::byte, kCommandBytes> bytes;
  if constexpr (Io::kReads) {
    io.raw(bytes.data(), bytes.size());
    head.command = command_from(bytes);
  } else {
    bytes = to_bytes(head.command);
    io.raw(bytes.data(), bytes.size());
  }
}
template <class Io, Either<StagedHead> T>
void fields(Io& io, T& head) {
  id(io, head.worker);
  push_news(io, head.push);
}
template <class Io, Either<ReportHead> T>
void fields(Io& io, T& head) {
  count(io, head.report.index, 1);
  real(io, head.report.noise.samples);
  real(io, head.report.noise.samples_squared);
  real(io, head.report.noise.mean_norm2);
  real(io, head.report.noise.spread);
  count(io, head.load.bytes_in);
  count(io, head.load.bytes_out);
  real(io, head.load.busy_s);
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
  flag(io, head.weights);
  flag(io, head.states);
}
template <class Io, Either<SnapshotHead> T>
void fields(Io& io, T& head) {
  count(io, head.version);
  count(io, head.index, 1);
  count(io, head.steps);
  real(io, head.rate);
  text(io, head.state, kMostStateBytes);
  elements(io, head);
}
template <class Io, Either<NewsHead> T>
void fields(Io& io, T& head) {
  count(io, head.index);
  count(io, head.used_samples);
  count(io, head.steps);
  count(io, head.first_update);
  flag(io, head.over);
  text(io, head.metrics, kMostMetricsBytes);
}

template <class Io, Either<MissingHead> T>
void fields(Io& io, T& head) {
  id(io, head.worker);
  count(io, head.sequence);
}

template <size_t kKind = 0>
Head read(size_t kind, HeadReader& reader) {
  if constexpr (kKind == std::variant_size_v<Head>) {
    throw PeerError(fmt::format("a message of the unknown kind {}: do all processes run the same version?", kind));
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
  refuse_if(body.size() % sizeof(SquaredNorms) != 0 || body.size() / sizeof(SquaredNorms) > kMostNorms,
            "its body has no norms");
  std::vector<SquaredNorms> norms(body.size() / sizeof(SquaredNorms));
  body.copy_to(std::as_writable_bytes(std::span(norms)));
  return norms;
}

std::string to_wire(const Head& head) {
  HeadWriter writer;
  writer.number(head.index(), 1);
  std::visit([&](const auto& of_its_kind) { fields(writer, of_its_kind); }, head);
  return writer.take();
}

Head head_from(std::string_view wire) {
  HeadReader reader(wire);
  const size_t kind = reader.number(1);
  Head head = read(kind, reader);
  refuse_if(reader.left() > 0, "it is too long");
  return head;
}

}  // namespace paceline
