#include "paceline/metrics/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <climits>

#include "paceline/core/check.h"
#include "paceline/core/wire.h"

namespace paceline {
namespace {

constexpr std::string_view kFilePrefix = "events.out.tfevents.";

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);  // the polynomial, reversed
    table[byte] = crc;
  }
  return table;
}();

// TFRecord's own masking: the CRC of data that holds CRCs would otherwise be weak.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

// Protobuf's wire encoding: each field is its number and wire type, then the value.
enum WireType { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
std::string key(int field, WireType type) { return varint(static_cast<uint64_t>(field) << 3 | type); }
std::string integer_field(int field, int64_t value) {
  return key(field, kVarint) + varint(static_cast<uint64_t>(value));
}
std::string double_field(int field, double value) { return key(field, kFixed64) + wire_bytes(value); }
std::string float_field(int field, float value) { return key(field, kFixed32) + wire_bytes(value); }
std::string bytes_field(int field, std::string_view bytes) {  // a string, or a message inside another
  return key(field, kLengthDelimited) + varint(bytes.size()) + std::string(bytes);
}

// Event: wall_time = 1, step = 2, then one of file_version = 3, summary = 5, session_log = 7.
std::string event(double wall_time_seconds, int64_t step, const std::string& what) {
  return tf_record(double_field(1, wall_time_seconds) + integer_field(2, step) + what);
}

std::filesystem::path new_file(const std::filesystem::path& folder, double wall_time_seconds) {
  auto time = static_cast<int64_t>(wall_time_seconds);
  std::error_code unreadable;  // an unreadable folder is reported when the file is opened
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    int64_t taken = 0;
    if (name.starts_with(kFilePrefix))
      std::from_chars(name.data() + kFilePrefix.size(), name.data() + name.size(), taken);
    time = std::max(time, taken + 1);
  }
  char host[HOST_NAME_MAX + 1] = "localhost";
  ::gethostname(host, sizeof host);
  host[HOST_NAME_MAX] = '\0';
  return folder / fmt::format("{}{:010}.{}.{}", kFilePrefix, time, host, ::getpid());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  const std::string length = wire_bytes(uint64_t{data.size()});
  return length + wire_bytes(masked_crc(length)) + std::string(data) + wire_bytes(masked_crc(data));
}

EventFile::EventFile(const std::filesystem::path& folder, double wall_time_seconds, int64_t purge_step)
    : file_(new_file(folder, wall_time_seconds)) {
  CHECK_GE(purge_step, -1);
  file_.append(event(wall_time_seconds, 0, bytes_field(3, "brain.Event:2")));
  constexpr int kStart = 1;  // SessionLog.status = 1
  if (purge_step >= 0) file_.append(event(wall_time_seconds, purge_step, bytes_field(7, integer_field(1, kStart))));
  file_.flush();
}

void EventFile::scalar(const std::string& tag, int64_t step, float value, double wall_time_seconds) {
  const std::string point = bytes_field(1, tag) + float_field(2, value);  // Summary.Value: tag = 1, simple_value = 2
  file_.append(event(wall_time_seconds, step, bytes_field(5, bytes_field(1, point))));
}

void EventFile::flush() { file_.flush(); }

}  // namespace paceline
