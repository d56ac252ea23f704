#include "paceline/core/private_folder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

std::string refusal_of(const std::filesystem::path& path) {
  try {
    make_private_folder(path);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

std::filesystem::perms mode_of(const std::filesystem::path& path) {
  return std::filesystem::status(path).permissions();
}

constexpr auto kPrivate = static_cast<std::filesystem::perms>(0700);

TEST(PrivateFolder, IsMadeAndTakenAgain) {
  const TestFolder parent;
  const auto path = parent.path() / "mine";
  make_private_folder(path);
  EXPECT_EQ(mode_of(path), kPrivate);
  std::ofstream(path / "file") << "kept";
  make_private_folder(path);
  EXPECT_TRUE(std::filesystem::exists(path / "file"));
}

TEST(PrivateFolder, OneThatOthersCouldReadIsClosedToThem) {
  const TestFolder parent;
  const auto path = parent.path() / "mine";
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, static_cast<std::filesystem::perms>(0755));
  make_private_folder(path);
  EXPECT_EQ(mode_of(path), kPrivate);
}

TEST(PrivateFolder, LinksFilesAndFoldersThatOthersWriteToAreRefused) {
  const TestFolder parent;
  std::filesystem::create_directory(parent.path() / "elsewhere");
  std::filesystem::create_directory_symlink(parent.path() / "elsewhere", parent.path() / "link");
  EXPECT_THAT(refusal_of(parent.path() / "link"), HasSubstr("link is not used: it is no folder"));
  EXPECT_FALSE(is_own_folder(parent.path() / "link"));

  std::ofstream(parent.path() / "file") << "";
  EXPECT_THAT(refusal_of(parent.path() / "file"), HasSubstr("it is no folder"));

  std::filesystem::permissions(parent.path() / "elsewhere", static_cast<std::filesystem::perms>(0777));
  EXPECT_THAT(refusal_of(parent.path() / "elsewhere"), HasSubstr("other users may write to it"));
  EXPECT_THAT(refusal_of(parent.path() / "missing" / "mine"), HasSubstr("cannot create folder"));
}

TEST(PrivateFolder, OneOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const TestFolder parent;
  const auto path = parent.path() / "theirs";
  std::filesystem::create_directory(path);
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal_of(path), HasSubstr("it belongs to another user"));
  EXPECT_FALSE(is_own_folder(path));
}

}  // namespace
}  // namespace paceline
