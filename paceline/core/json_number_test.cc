#include "paceline/core/json_number.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

using nlohmann::json;

TEST(JsonNumber, NaturalNumbersAreTakenAsTheyStand) {
  EXPECT_EQ(natural_of(json::parse("0")), 0u);
  EXPECT_EQ(natural_of(json::parse("18446744073709551615")), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(natural_of(json::parse("7"), 7), 7u);
  EXPECT_THAT(naturals_of(json::parse("[1, 2]")), testing::ElementsAre(1, 2));
}

TEST(JsonNumber, EverythingElseIsRefused) {
  for (const char* text : {"-1", "1.0", "1e300", "18446744073709551616", "true", "null", "\"1\"", "[1]", "{}", "8"})
    EXPECT_THROW(natural_of(json::parse(text), 7), DataError) << text;
  for (const char* text : {"1", "null", "{}", "[1, -1]", "[[1]]"})
    EXPECT_THROW(naturals_of(json::parse(text)), DataError) << text;
}

}  // namespace
}  // namespace paceline
