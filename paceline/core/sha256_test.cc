#include "paceline/core/sha256.h"

#include <gmock/gmock.h>

#include <string_view>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/core/test_memory.h"

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

TEST(Sha256, OfAFileIsThatOfItsBytes) {
  const TestFolder folder;
  for (const size_t bytes : {0, 3, (1 << 20) - 1, 1 << 20, (1 << 20) + 1}) {
    const std::string text(bytes, 'x');
    replace_file(folder.path() / "a", text);
    EXPECT_EQ(sha256_of_file(folder.path() / "a"), sha256_of(text)) << bytes;
  }
}

TEST(Sha256, OfALargeFileTakesLittleMemory) {
  constexpr size_t kBytes = 100 << 20;
  const TestFolder folder;
  replace_file(folder.path() / "large", "");
  std::filesystem::resize_file(folder.path() / "large", kBytes);  // a hole: takes no place on the disk
  EXPECT_LT(peak_growth_bytes([&] { sha256_of_file(folder.path() / "large"); }), kBytes / 10);
}

TEST(Sha256, OfAFileThatCannotBeReadIsAFileError) {
  const TestFolder folder;
  EXPECT_THAT([&] { sha256_of_file(folder.path() / "absent"); },
              testing::ThrowsMessage<FileError>(testing::HasSubstr("absent: No such file")));
  EXPECT_THAT([&] { sha256_of_file(folder.path()); },
              testing::ThrowsMessage<FileError>(testing::HasSubstr("Is a directory")));
}

}  // namespace
}  // namespace paceline
