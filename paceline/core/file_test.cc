#include "paceline/core/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/sha256.h"
#include "paceline/core/test_folder.h"
#include "paceline/core/test_other_user.h"

namespace paceline {
namespace {

std::vector<std::filesystem::path> flushed;

}  // namespace
}  // namespace paceline

// Takes the place of the C library's, and notes what is flushed.
extern "C" int fsync(int descriptor) {
  paceline::flushed.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace paceline {
namespace {

using testing::IsSupersetOf;

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class FileTest : public testing::Test {
 protected:
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

  const TestFolder test_folder_;
  const std::filesystem::path folder_ = test_folder_.path();
};

TEST_F(FileTest, ReadsWhatWasWrittenWithAllItsBytes) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += static_cast<char>(i);
  replace_file(folder_ / "a", bytes);
  EXPECT_EQ(read_file(folder_ / "a"), bytes);
  replace_file(folder_ / "a", "");
  EXPECT_EQ(read_file(folder_ / "a"), "");
}

TEST_F(FileTest, AMissingFileIsNamed) {
  const auto path = folder_ / "nothing.toml";
  EXPECT_THAT([&] { read_file(path); },
              ThrowsMessage<FileError>(AllOf(HasSubstr(path.string()), HasSubstr("No such file or directory"))));
}

TEST_F(FileTest, AFolderCannotBeReadAsAFile) {
  EXPECT_THAT([&] { read_file(folder_); },
              ThrowsMessage<FileError>(AllOf(HasSubstr(folder_.string()), HasSubstr("Is a directory"))));
}

TEST_F(FileTest, ReplaceLeavesOnlyTheNewFile) {
  replace_file(folder_ / "a", "old and longer");
  replace_file(folder_ / "a", "new");
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, AReaderOfTheOldFileKeepsIt) {  // it is another file that takes the name; no byte is overwritten
  replace_file(folder_ / "a", "old");
  std::ifstream reader(folder_ / "a");
  replace_file(folder_ / "a", "new");
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "old");
}

TEST_F(FileTest, AReplacementThatFailsLeavesTheOldFileAndNothingBesideIt) {
  replace_file(folder_ / "a", "old");
  ::signal(SIGXFSZ, SIG_IGN);  // writing beyond the limit fails with EFBIG, as on a full disk
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    replace_file(folder_ / "a", std::string(5000, 'x'));
  } catch (const FileError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, AllOf(HasSubstr("cannot write"), HasSubstr("free some space")));
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, AReplacementThatCannotTakeItsNameLeavesNothingBesideIt) {
  std::filesystem::create_directories(folder_ / "taken" / "inside");
  EXPECT_THROW(replace_file(folder_ / "taken", "text"), FileError);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, MakesFoldersInFolders) {
  make_directories(folder_ / "a" / "b");
  make_directories(folder_ / "a" / "b");  // is there already: fine
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "a" / "b"));
  replace_file(folder_ / "file", "");
  EXPECT_THAT([&] { make_directories(folder_ / "file" / "below"); },
              ThrowsMessage<FileError>(HasSubstr((folder_ / "file" / "below").string())));
}

TEST_F(FileTest, RenamesAndNamesTheTargetWhenItCannot) {
  replace_file(folder_ / "a", "text");
  rename_path(folder_ / "a", folder_ / "b");
  EXPECT_EQ(read_file(folder_ / "b"), "text");
  EXPECT_THAT([&] { rename_path(folder_ / "a", folder_ / "c"); },
              ThrowsMessage<FileError>(HasSubstr((folder_ / "c").string())));
}

TEST_F(FileTest, RenamesInTheCurrentFolder) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  replace_file("bare", "text");
  std::filesystem::current_path(before);
  EXPECT_EQ(read_file(folder_ / "bare"), "text");
}

TEST_F(FileTest, OnlyAFolderCanBeFlushedAsOne) {
  EXPECT_NO_THROW(sync_directory(folder_));
  EXPECT_THROW(sync_directory(folder_ / "missing"), FileError);
}

// A power cut must not take a new folder with all that is in it.
TEST_F(FileTest, FoldersThatAreNewAreFlushedInTheOnesAboveThem) {
  flushed.clear();
  make_directories(folder_ / "a" / "b" / "c");
  EXPECT_THAT(flushed, IsSupersetOf({folder_, folder_ / "a", folder_ / "a" / "b"}));
  flushed.clear();
  make_directories(folder_ / "a" / "b" / "c");
  EXPECT_THAT(flushed, testing::IsEmpty());
}

TEST_F(FileTest, WhatIsMadeIsTheOwnersAlone) {
  const auto mode = [&](const char* name) {
    return static_cast<unsigned>(std::filesystem::status(folder_ / name).permissions());
  };
  const mode_t before = ::umask(0);
  make_directories(folder_ / "a" / "b");
  replace_file(folder_ / "a" / "file", "text");
  make_private_file(folder_ / "a" / "empty");
  make_directories(folder_ / "shared" / "b", Readers::as_umask);
  replace_file(folder_ / "shared" / "file", "text", Readers::as_umask);
  std::ofstream(folder_ / "there") << "text";
  make_private_file(folder_ / "there");
  ::umask(before);
  for (const char* folder : {"a", "a/b"}) EXPECT_EQ(mode(folder), 0700u) << folder;
  for (const char* file : {"a/file", "a/empty"}) EXPECT_EQ(mode(file), 0600u) << file;
  for (const char* folder : {"shared", "shared/b"}) EXPECT_EQ(mode(folder), 0777u) << folder;
  EXPECT_EQ(mode("shared/file"), 0666u);
  EXPECT_EQ(mode("there"), 0666u);
  EXPECT_EQ(read_file(folder_ / "there"), "text");
}

// A writer that was killed may have been of a version that let others read.
TEST_F(FileTest, ReplacingTakesNoModeFromALeftover) {
  std::ofstream(folder_ / "a.writing") << "half of it";
  replace_file(folder_ / "a", "text");
  EXPECT_EQ(std::filesystem::status(folder_ / "a").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(FileTest, RemovesFilesAndFoldersAndWhatIsNotThere) {
  make_directories(folder_ / "a" / "b");
  replace_file(folder_ / "a" / "b" / "c", "text");
  replace_file(folder_ / "file", "text");
  for (const char* name : {"a", "file", "absent"}) EXPECT_EQ(remove_path(folder_ / name), "") << name;
  EXPECT_EQ(entries(), 0u);
}

TEST_F(FileTest, WhatCannotBeRemovedIsSaid) {
  const OrdinaryUser user(folder_);
  if (!user.holds()) GTEST_SKIP() << "no ordinary user here";
  make_directories(folder_ / "a" / "held");
  replace_file(folder_ / "a" / "held" / "file", "text");
  std::filesystem::permissions(folder_ / "a" / "held", std::filesystem::perms::owner_read);
  EXPECT_THAT(remove_path(folder_ / "a"),
              AllOf(HasSubstr("cannot remove " + (folder_ / "a").string()), HasSubstr("Permission denied")));
  std::filesystem::permissions(folder_ / "a" / "held", std::filesystem::perms::owner_all);
}

TEST_F(FileTest, DurableFileHashesWhatIsWritten) {
  Sha256 hash;
  DurableFile file(folder_ / "a", &hash);
  file.write("one ");
  file.write("two");
  file.finish();
  EXPECT_EQ(hash.hex(), sha256_of_file(folder_ / "a"));
}

TEST_F(FileTest, DurableFileIsWrittenInPieces) {
  {
    DurableFile file(folder_ / "a");
    file.write("one ");
    file.write("");
    const int number = 0x04030201;
    file.write(&number, sizeof number);
    file.finish();
  }
  EXPECT_EQ(read_file(folder_ / "a"), "one \x01\x02\x03\x04");
}

TEST_F(FileTest, DurableFileThatIsNotFinishedIsRemoved) {
  {
    DurableFile file(folder_ / "a");
    file.write("half of it");
    EXPECT_TRUE(std::filesystem::exists(folder_ / "a"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
}

TEST_F(FileTest, DurableFileInAMissingFolderIsNamed) {
  EXPECT_THAT([&] { DurableFile(folder_ / "missing" / "a"); }, ThrowsMessage<FileError>(HasSubstr("missing/a")));
}

TEST_F(FileTest, AFullDiskIsSaidWithAdvice) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  std::filesystem::create_symlink("/dev/full", folder_ / "full");  // a link: an unfinished file is removed
  DurableFile file(folder_ / "full");
  EXPECT_THAT([&] { file.write("text"); },
              ThrowsMessage<FileError>(AllOf(HasSubstr("No space left"), HasSubstr("free some space"))));
}

TEST(ReplaceFile, PutsNoFileInThePlaceOfAPipeOrADevice) {
  const TestFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(replace_file(pipe, "text"), FileError);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

}  // namespace
}  // namespace paceline
