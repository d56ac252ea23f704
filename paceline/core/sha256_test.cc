#include "paceline/core/sha256.h"

#include <gtest/gtest.h>

#include <string_view>

namespace paceline {
namespace {

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

TEST(Sha256, GivesTheKnownAnswersOfFips180) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, OfAMillionLettersInPiecesOfEverySize) {
  Sha256 hash;
  const std::string letters(1000, 'a');
  size_t left = 1'000'000;
  for (size_t piece = 0; left > 0; piece = (piece + 1) % 1001) {
    const size_t bytes = std::min(piece, left);
    hash.update(letters.data(), bytes);
    left -= bytes;
  }
  EXPECT_EQ(hash.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace paceline
