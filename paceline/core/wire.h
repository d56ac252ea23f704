// Values as bytes and back, for messages and for records of files: numbers in little-endian order, texts and lists
// after their length, a variant after its number. What is read is checked: bytes that no writer has written end in a
// ProtocolError, never in a value that no writer has.
//
//   const std::string bytes = wire_bytes(uint32_t{7}, std::string("text"));
//   WireReader reader(bytes);
//   reader.values(number, text);
//   reader.finish();
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/core/check.h"

namespace paceline {

class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A message names its fields, once for both directions:
//   template <class Self> static auto fields(Self& self) { return std::tie(self.rank, self.text); }
// A layout with conditions is a function of either class below: template <class Io, class T> void fields(Io& io, T& t),
// where `t` is const when it is written.
template <class T>
concept HasFields = requires(T& value) {
  T::fields(value);
};

// An enum gives its last value, found where the enum is: constexpr Kind last_of(Kind).
template <class T>
concept Enumeration = std::is_enum_v<T>;

// The unsigned integer that a number is on the wire. Floating-point numbers travel bit by bit, whatever they are.
template <class T>
constexpr auto wire_bits(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return static_cast<uint8_t>(value);
  } else if constexpr (Enumeration<T>) {
    return wire_bits(static_cast<std::underlying_type_t<T>>(value));
  } else {
    static_assert(std::is_integral_v<T>);
    return static_cast<std::make_unsigned_t<T>>(value);
  }
}

class WireWriter {
 public:
  static constexpr bool kReads = false;

  template <class... T>
  void values(const T&... values) {
    (put(values), ...);
  }
  void text(const std::string& text, size_t most_bytes) {
    CHECK_LE(text.size(), most_bytes);
    put(text);
  }
  void refuse_if(bool, const char*) {}  // only readers judge

  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (HasFields<T>) {
      std::apply([&](const auto&... field) { (put(field), ...); }, T::fields(value));
    } else {
      const auto number = wire_bits(value);
      std::array<char, sizeof(number)> bytes;
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(uint64_t{number} >> (8 * i));
      bytes_.append(bytes.data(), bytes.size());
    }
  }
  void put(const std::string& text) {
    put(static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }
  template <size_t kSize>
  void put(const std::array<std::byte, kSize>& bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), kSize);
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<uint32_t>(list.size()));
    for (const T& value : list) put(value);
  }
  template <class... T>
  void put(const std::variant<T...>& value) {
    put(static_cast<uint8_t>(value.index()));
    std::visit([&](const auto& held) { put(held); }, value);
  }

  std::string bytes_;
};

class WireReader {
 public:
  static constexpr bool kReads = true;

  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <class... T>
  void values(T&... values) {
    (get(values), ...);
  }
  void text(std::string& text, size_t most_bytes) {
    const auto size = number<uint32_t>();
    refuse_if(size > most_bytes, "a text that is too long");
    text = take(size);
  }
  void refuse_if(bool wrong, const char* what) {
    if (wrong) throw ProtocolError(what);
  }
  void finish() { refuse_if(!bytes_.empty(), "a message that is too long"); }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (HasFields<T>) {
      std::apply([&](auto&... field) { (get(field), ...); }, T::fields(value));
    } else {
      const auto bits = number<decltype(wire_bits(value))>();
      if constexpr (std::is_same_v<T, bool>) refuse_if(bits > 1, "neither yes nor no");
      if constexpr (Enumeration<T>) refuse_if(bits > wire_bits(last_of(T{})), "an unknown kind of value");
      if constexpr (std::is_floating_point_v<T>)
        value = std::bit_cast<T>(bits);
      else
        value = static_cast<T>(bits);
    }
  }
  void get(std::string& text) { text = take(number<uint32_t>()); }
  template <size_t kSize>
  void get(std::array<std::byte, kSize>& bytes) {
    const std::string_view from = take(kSize);
    for (size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<std::byte>(from[i]);
  }
  template <class T>
  void get(std::vector<T>& list) {
    const auto size = number<uint32_t>();
    refuse_if(size > bytes_.size(), kEndsEarly);
    list.clear();  // grows with what is there: one byte of a claim must not make room for a value of a hundred
    for (uint32_t i = 0; i < size; ++i) get(list.emplace_back());
  }
  template <class... T>
  void get(std::variant<T...>& value) {
    const auto index = number<uint8_t>();
    refuse_if(index >= sizeof...(T), "an unknown kind of value");
    size_t alternative = 0;
    ((alternative++ == index ? get(value.template emplace<T>()) : void()), ...);
  }

  template <class T>
  T number() {
    const std::string_view bytes = take(sizeof(T));
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof(T); ++i) number |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return static_cast<T>(number);
  }
  std::string_view take(size_t count) {
    refuse_if(count > bytes_.size(), kEndsEarly);
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  static constexpr const char* kEndsEarly = "a message that ends in the middle";
  std::string_view bytes_;
};

template <class... T>
std::string wire_bytes(const T&... values) {
  WireWriter writer;
  writer.values(values...);
  return writer.take();
}

// Throws ProtocolError where the bytes are not those of a T, and nothing else.
template <class T>
T wire_value(std::string_view bytes) {
  T value;
  WireReader reader(bytes);
  reader.values(value);
  reader.finish();
  return value;
}

}  // namespace paceline
