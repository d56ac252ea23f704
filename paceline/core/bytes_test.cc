#include "paceline/core/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace paceline {
namespace {

TEST(Bytes, DecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("512"), 512u);
  EXPECT_EQ(parse_bytes("1K"), 1000u);
  EXPECT_EQ(parse_bytes("25M"), 25'000'000u);
  EXPECT_EQ(parse_bytes("2G"), 2'000'000'000u);
  EXPECT_EQ(parse_bytes("1KiB"), 1024u);
  EXPECT_EQ(parse_bytes("4MiB"), 4u << 20);
  EXPECT_EQ(parse_bytes("4 MiB"), 4u << 20);
  EXPECT_EQ(parse_bytes("3GiB"), 3ull << 30);
}

TEST(Bytes, OtherTextIsNoSize) {
  for (const char* text : {"", " ", "MiB", "4TB", "4mib", "4  MiB", "4 ", " 4", "-4", "+4", "4.5MiB", "4MiBx", "1e6"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(Bytes, TheNamesOfOtherProgramsAreReadToo) {
  EXPECT_EQ(parse_bytes("100MB"), 100'000'000u);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000u);
  EXPECT_EQ(parse_bytes("3KB"), 3'000u);
  EXPECT_EQ(parse_bytes("3 kB"), 3'000u);
  EXPECT_EQ(parse_bytes("7B"), 7u);
}

TEST(Bytes, MoreThan64BitsIsNoSize) {
  EXPECT_EQ(parse_bytes("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parse_bytes("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_bytes("17179869183GiB"), 17179869183ull << 30);
  EXPECT_EQ(parse_bytes("17179869184GiB"), std::nullopt);
}

TEST(Bytes, PrintedInTheShortestExactUnit) {
  EXPECT_EQ(print_bytes(0), "0");
  EXPECT_EQ(print_bytes(1), "1");
  EXPECT_EQ(print_bytes(999), "999");
  EXPECT_EQ(print_bytes(1000), "1K");
  EXPECT_EQ(print_bytes(1024), "1KiB");
  EXPECT_EQ(print_bytes(1025), "1025");
  EXPECT_EQ(print_bytes(4 << 20), "4MiB");
  EXPECT_EQ(print_bytes(51'200'000), "51200K");
  EXPECT_EQ(print_bytes(1ull << 40), "1024GiB");
}

TEST(Bytes, PrintedSizesParseToThemselves) {
  for (const uint64_t bytes :
       {0ull, 1ull, 1000ull, 1024ull, 1536ull, 1'000'000ull, 1ull << 20, 123'456'789ull, 7ull << 30, ~0ull}) {
    EXPECT_EQ(parse_bytes(print_bytes(bytes)), bytes);
  }
}

}  // namespace
}  // namespace paceline
