#include "paceline/core/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/error.h"

namespace paceline {
namespace {

enum class Colour : uint8_t { red, green };
constexpr Colour last_of(Colour) { return Colour::green; }
enum class Signed : int16_t { none, one };
constexpr Signed last_of(Signed) { return Signed::one; }

struct Point {
  int32_t x = 0;
  std::vector<std::string> names;
  bool operator==(const Point&) const = default;
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.x, self.names);
  }
};
using Mixed = std::variant<int64_t, double, std::string>;

template <class T>
T there_and_back(const T& value) {
  return wire_value<T>(wire_bytes(value));
}

template <class T>
std::string refusal(std::string_view bytes) {
  try {
    wire_value<T>(bytes);
  } catch (const ProtocolError& error) {
    return error.what();
  }
  return "";
}

TEST(Wire, ValuesComeBackAsTheyWere) {
  EXPECT_EQ(there_and_back(uint8_t{200}), 200);
  EXPECT_EQ(there_and_back(std::numeric_limits<int32_t>::min()), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(there_and_back(int64_t{-2}), -2);
  EXPECT_EQ(there_and_back(~uint64_t{0}), ~uint64_t{0});
  EXPECT_EQ(there_and_back(true), true);
  EXPECT_EQ(there_and_back(Colour::green), Colour::green);
  EXPECT_EQ(there_and_back(-0.1f), -0.1f);
  EXPECT_TRUE(std::signbit(there_and_back(-0.0)));
  EXPECT_TRUE(std::isnan(there_and_back(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(there_and_back(std::string("zero \0 inside", 13)), std::string("zero \0 inside", 13));
  EXPECT_EQ(there_and_back(Point{-3, {"", "b"}}), (Point{-3, {"", "b"}}));
  for (const Mixed& value : {Mixed(int64_t{-1}), Mixed(1e300), Mixed("text")}) EXPECT_EQ(there_and_back(value), value);
  const std::array<std::byte, 2> raw = {std::byte{1}, std::byte{255}};
  EXPECT_EQ(there_and_back(raw), raw);
}

TEST(Wire, NumbersAreLittleEndianAndTextsFollowTheirLength) {
  EXPECT_EQ(wire_bytes(uint32_t{0x01020304}, Colour::green, 1.0f), std::string("\4\3\2\1\1\0\0\x80\x3f", 9));
  EXPECT_EQ(wire_bytes(std::string("ab"), true), std::string("\2\0\0\0ab\1", 7));
}

TEST(Wire, BytesThatEndEarlyOrLateAreRefused) {
  const std::string bytes = wire_bytes(Point{7, {"one", "two"}});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(refusal<Point>(std::string_view(bytes).substr(0, size)), "a message that ends in the middle") << size;
  EXPECT_EQ(refusal<Point>(bytes + "x"), "a message that is too long");
}

TEST(Wire, ValuesThatNoWriterHasAreRefused) {
  EXPECT_EQ(refusal<bool>("\2"), "neither yes nor no");
  EXPECT_EQ(refusal<Colour>("\2"), "an unknown kind of value");
  EXPECT_EQ(refusal<Signed>("\xff\xff"), "an unknown kind of value");  // -1
  EXPECT_EQ(refusal<Mixed>("\3"), "an unknown kind of value");
}

TEST(Wire, ATextHasAsManyBytesAsAgreed) {
  std::string text;
  const std::string bytes = wire_bytes(std::string("abcd"));
  WireReader(bytes).text(text, 4);
  EXPECT_EQ(text, "abcd");
  EXPECT_THROW(WireReader(bytes).text(text, 3), ProtocolError);
  EXPECT_THROW(WireWriter().text("abcd", 3), InternalError);
}

// Counts how many there were.
struct Large {
  static inline int made = 0;
  std::array<uint64_t, 10> words = {};
  Large() { ++made; }
  template <class Self>
  static auto fields(Self& self) {
    return std::apply([](auto&... word) { return std::tie(word...); }, self.words);
  }
};

TEST(Wire, AListMakesRoomForWhatHasComeAndNotForWhatItClaims) {
  Large::made = 0;
  std::vector<Large> list;
  const std::string bytes = wire_bytes(uint32_t{900}) + std::string(1000, '\0');  // of 80 bytes each: 12 and a half
  EXPECT_THROW(WireReader(bytes).values(list), ProtocolError);
  EXPECT_EQ(Large::made, 13);
}

}  // namespace
}  // namespace paceline
