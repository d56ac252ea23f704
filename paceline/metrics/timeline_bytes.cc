#include "paceline/metrics/timeline_bytes.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <unordered_map>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr std::string_view kMagic = "PLT1";
constexpr int64_t kLatestNs = std::numeric_limits<int64_t>::max() / 3;  // sums and differences of two do not overflow
constexpr int kMostRanks = 1 << 20;

// What each takes at least: a count that the bytes left cannot hold is found before memory is taken for it.
constexpr size_t kLeastTextBytes = 1, kLeastEventBytes = 6, kLeastArgumentBytes = 3;

class Writer {
 public:
  void natural(uint64_t value) {  // seven bits a byte, the lowest first; the high bit says that more follow
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void integer(int64_t value) {  // small ones of either sign stay short
    natural((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  void real(double value) {
    for (uint64_t bits = std::bit_cast<uint64_t>(value), i = 0; i < 8; ++i)
      bytes_.push_back(static_cast<char>(bits >> (8 * i)));
  }
  void text(std::string_view text) {
    natural(text.size());
    bytes_ += text;
  }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : all_(bytes), rest_(bytes) {}

  [[noreturn]] void damaged(std::string_view what) const {
    throw DataError(fmt::format("the timeline of a rank is damaged at byte {}: {}", all_.size() - rest_.size(), what));
  }
  std::string_view raw(uint64_t count) {
    if (count > rest_.size()) damaged("it ends early");
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  uint64_t natural() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(raw(1)[0]);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    damaged("a number of more than 64 bits");
  }
  int64_t integer() {
    const uint64_t value = natural();
    return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1)));
  }
  double real() {
    uint64_t bits = 0;
    const std::string_view bytes = raw(8);
    for (size_t i = 0; i < 8; ++i) bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    return std::bit_cast<double>(bits);
  }
  std::string text() { return std::string(raw(natural())); }
  uint64_t natural_up_to(uint64_t most) {
    const uint64_t value = natural();
    if (value > most) damaged(fmt::format("{} where at most {} can be", value, most));
    return value;
  }
  size_t count(size_t least_bytes) { return natural_up_to(rest_.size() / least_bytes); }  // of things that take so much
  void end() const {
    if (!rest_.empty()) damaged("something follows its end");
  }

 private:
  std::string_view all_, rest_;
};

// Texts by number: names, categories, tracks and algorithms come again with every step.
class TextTable {
 public:
  uint64_t number(std::string_view text) {
    const auto [found, added] = numbers_.try_emplace(text, texts_.size());
    if (added) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string_view>& texts() const { return texts_; }

 private:
  std::unordered_map<std::string_view, uint64_t> numbers_;
  std::vector<std::string_view> texts_;
};

void write_event(Writer& out, TextTable& texts, const TimelineEvent& event, int64_t previous_ns) {
  out.natural(texts.number(event.name));
  out.natural(texts.number(event.category));
  out.natural(texts.number(event.track));
  out.integer(event.begin_ns - previous_ns);
  out.natural(static_cast<uint64_t>(event.end_ns - event.begin_ns));
  out.natural(event.arguments.size());
  for (const auto& [name, value] : event.arguments) {
    out.natural(texts.number(name));
    out.natural(value.index());
    if (const auto* integer = std::get_if<int64_t>(&value)) out.integer(*integer);
    if (const auto* real = std::get_if<double>(&value)) out.real(*real);
    if (const auto* text = std::get_if<std::string>(&value)) out.natural(texts.number(*text));
  }
}

TimelineEvent read_event(Reader& in, const std::vector<std::string>& texts, int64_t previous_ns) {
  const auto text = [&] {
    const uint64_t number = in.natural();
    if (number >= texts.size()) in.damaged(fmt::format("there is no text {}", number));
    return texts[number];
  };
  const auto within = [&](uint64_t from_ns, uint64_t passed_ns) {  // unsigned: what overflows is out of range as well
    const auto ns = static_cast<int64_t>(from_ns + passed_ns);
    if (ns < 0 || ns > kLatestNs) in.damaged("a time out of range");
    return ns;
  };
  TimelineEvent event;
  event.name = text();
  event.category = text();
  event.track = text();
  event.begin_ns = within(static_cast<uint64_t>(previous_ns), static_cast<uint64_t>(in.integer()));
  event.end_ns = within(static_cast<uint64_t>(event.begin_ns), in.natural_up_to(kLatestNs));
  event.arguments.resize(in.count(kLeastArgumentBytes));
  for (auto& [name, value] : event.arguments) {
    name = text();
    const uint64_t kind = in.natural_up_to(2);
    if (kind == 0) value = in.integer();
    if (kind == 1) value = in.real();
    if (kind == 2) value = text();
  }
  return event;
}

}  // namespace

std::string to_bytes(const RankTimeline& timeline) {
  CHECK_GE(timeline.rank, 0);
  Writer events;
  TextTable texts;
  int64_t previous_ns = 0;
  for (const TimelineEvent& event : timeline.events) {
    write_event(events, texts, event, previous_ns);
    previous_ns = event.begin_ns;
  }
  Writer out;
  out.raw(kMagic);
  out.natural(static_cast<uint64_t>(timeline.rank));
  out.text(timeline.host);
  out.integer(timeline.wall_offset_ns);
  out.natural(timeline.dropped);
  out.natural(texts.texts().size());
  for (const std::string_view text : texts.texts()) out.text(text);
  out.natural(timeline.events.size());
  out.raw(events.take());
  return out.take();
}

RankTimeline timeline_from(std::string_view bytes) {
  Reader in(bytes);
  if (in.raw(std::min(kMagic.size(), bytes.size())) != kMagic) in.damaged("it does not begin as one");
  RankTimeline timeline;
  timeline.rank = static_cast<int>(in.natural_up_to(kMostRanks));
  timeline.host = in.text();
  timeline.wall_offset_ns = in.integer();
  if (timeline.wall_offset_ns < -kLatestNs || timeline.wall_offset_ns > kLatestNs) in.damaged("a time out of range");
  timeline.dropped = in.natural();
  std::vector<std::string> texts(in.count(kLeastTextBytes));
  for (std::string& text : texts) text = in.text();
  timeline.events.resize(in.count(kLeastEventBytes));
  int64_t previous_ns = 0;
  for (TimelineEvent& event : timeline.events) {
    event = read_event(in, texts, previous_ns);
    previous_ns = event.begin_ns;
  }
  in.end();
  return timeline;
}

}  // namespace paceline
