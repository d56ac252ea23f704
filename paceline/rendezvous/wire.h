// Values as bytes and back: numbers in little-endian order, texts and lists after their length. What is read is
// checked: bytes that are not what was expected end in a ProtocolError, never in a value that no writer has.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace paceline {

class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A message names its fields, once for both directions:
//   template <class Self> static auto fields(Self& self) { return std::tie(self.rank, self.text); }
template <class T>
concept HasFields = requires(T& value) {
  T::fields(value);
};

// An enum gives its last value, found where the enum is: constexpr Kind last_of(Kind).
template <class T>
concept Enumeration = std::is_enum_v<T>;

class Writer {
 public:
  template <class T>
  Writer& put(const T& value) {
    if constexpr (HasFields<T>) {
      std::apply([&](const auto&... field) { (put(field), ...); }, T::fields(value));
    } else if constexpr (Enumeration<T>) {
      put(static_cast<std::underlying_type_t<T>>(value));
    } else {
      static_assert(std::is_integral_v<T>);
      for (size_t i = 0; i < sizeof(T); ++i) bytes_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
    }
    return *this;
  }
  Writer& put(const std::string& text) {
    put(static_cast<uint32_t>(text.size()));
    bytes_ += text;
    return *this;
  }
  template <class T>
  Writer& put(const std::vector<T>& list) {
    put(static_cast<uint32_t>(list.size()));
    for (const T& value : list) put(value);
    return *this;
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  void get(T& value) {
    if constexpr (HasFields<T>) {
      std::apply([&](auto&... field) { (get(field), ...); }, T::fields(value));
    } else if constexpr (Enumeration<T>) {
      const auto number = get_number<std::underlying_type_t<T>>();
      if (number > static_cast<std::underlying_type_t<T>>(last_of(T{})))
        throw ProtocolError("an unknown kind of value");
      value = static_cast<T>(number);
    } else {
      value = get_number<T>();
    }
  }
  void get(bool& value) { value = get_number<uint8_t>() != 0; }
  void get(std::string& text) {
    const auto size = get_number<uint32_t>();
    if (size > bytes_.size()) throw ProtocolError("a message that ends in the middle");
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
  }
  template <class T>
  void get(std::vector<T>& list) {
    const auto size = get_number<uint32_t>();
    if (size > bytes_.size()) throw ProtocolError("a message that ends in the middle");
    list.clear();  // grows with what is there: one byte of a claim must not make room for a value of a hundred
    for (uint32_t i = 0; i < size; ++i) get(list.emplace_back());
  }

  void finish() const {
    if (!bytes_.empty()) throw ProtocolError("a message that is too long");
  }

 private:
  template <class T>
  T get_number() {
    static_assert(std::is_integral_v<T>);
    if (bytes_.size() < sizeof(T)) throw ProtocolError("a message that ends in the middle");
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof(T); ++i) number |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[i])) << (8 * i);
    bytes_.remove_prefix(sizeof(T));
    return static_cast<T>(number);
  }

  std::string_view bytes_;
};

}  // namespace paceline
