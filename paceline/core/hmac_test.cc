#include "paceline/core/hmac.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

TEST(Hmac, GivesTheKnownAnswersOfRfc4231) {
  EXPECT_EQ(hmac_sha256_hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac_sha256_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_sha256_hex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, OfNothingWithAnEmptyKey) {
  EXPECT_EQ(hmac_sha256_hex("", ""), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(RandomHex, GivesTwoDigitsAByte) {
  EXPECT_EQ(random_hex(0), "");
  EXPECT_EQ(random_hex(300).size(), 600U);
  EXPECT_EQ(random_hex(300).find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(RandomHex, DoesNotRepeatItself) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_hex(16));
  EXPECT_EQ(seen.size(), 1000U);
}

}  // namespace
}  // namespace paceline
