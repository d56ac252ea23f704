#include "paceline/ps/shard_file.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/shard.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr uint64_t kCount = 100'000;

class ShardFileTest : public testing::Test {
 protected:
  std::unique_ptr<Shard> open(uint64_t count = kCount, int shards = 1, int shard = 0, ServerUpdate update = {}) {
    const ShardMap map({{"w", count, true}}, shards);
    return std::make_unique<Shard>(path_, map, shard, update, std::vector<float>(map.count(shard), 1.0f));
  }
  void change(std::streamoff at, char value) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put(value);
  }
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_.path()), std::filesystem::directory_iterator()));
  }
  template <class Open>
  void refused(const Open& open, const std::string& why) {
    EXPECT_THAT(open, ThrowsMessage<FileError>(AllOf(HasSubstr(path_.string()), HasSubstr(why))));
  }

  TestFolder folder_;
  std::filesystem::path path_ = folder_.path() / "shard";
};

TEST_F(ShardFileTest, IsMadeOnceAndOpenedAfterwards) {
  open()->states()[0].values[5] = 7;
  EXPECT_EQ(entries(), 1u);
  const auto shard = open();
  EXPECT_EQ(shard->weights()[5], 7);
  EXPECT_EQ(shard->weights()[4], 1);
  EXPECT_EQ(shard->weights().size(), kCount);
}

TEST_F(ShardFileTest, OfAnotherModelShardOrUpdateIsRefused) {
  open().reset();
  refused([&] { open(kCount + 1); }, "it is of another run");
  refused([&] { open(kCount, 2); }, "it is of another run");
  refused([&] { open(kCount, 1, 0, {.momentum = 0.8}); }, "it is of another run");
  refused([&] { open(kCount, 1, 0, {.most_workers = 63}); }, "it is of another run");
  EXPECT_NO_THROW(open(kCount, 1, 0, {.threads = 2}));  // changes no bits
}

TEST_F(ShardFileTest, ThatIsDamagedIsRefused) {
  open().reset();
  const std::string sound = read_file(path_);
  change(0, 'x');
  refused([&] { open(); }, "not the state of a parameter server");
  replace_file(path_, sound);
  change(16, 9);
  refused([&] { open(); }, "format 9");
  replace_file(path_, sound);
  change(500, 'x');  // behind the identity's text
  refused([&] { open(); }, "its header is damaged");
  for (const char phase : {7, 2, 3}) {  // no such one; a command under way that is none
    replace_file(path_, sound);
    change(600, phase);
    refused([&] { open(); }, "its numbers are damaged");
  }
  replace_file(path_, sound);
  std::filesystem::resize_file(path_, sound.size() - 4096);
  refused([&] { open(); }, "cut off");
  replace_file(path_, "short");
  refused([&] { open(); }, "not the state of a parameter server");
  replace_file(path_, "");
  refused([&] { open(); }, "is empty");
  replace_file(path_, sound);
  EXPECT_NO_THROW(open());
}

TEST_F(ShardFileTest, HasOneHolder) {
  auto shard = open();
  refused([&] { open(); }, "held by another process");
  shard.reset();
  EXPECT_NO_THROW(open());
}

TEST_F(ShardFileTest, WhatAKilledMakerLeftIsMadeAnew) {
  replace_file(path_.string() + ".making", std::string(10'000'000, 'x'));
  EXPECT_EQ(open()->states()[1].values[kCount - 1], 0);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(ShardFileTest, IsClosedToOtherUsers) {
  const auto mode = [&] { return static_cast<unsigned>(std::filesystem::status(path_).permissions()); };
  open();
  EXPECT_EQ(mode(), 0600u);
  std::filesystem::permissions(path_, static_cast<std::filesystem::perms>(0644));
  open();
  EXPECT_EQ(mode(), 0600u);
  std::filesystem::permissions(path_, static_cast<std::filesystem::perms>(0666));
  refused([&] { open(); }, "other users may write to it");
}

TEST_F(ShardFileTest, DoesNotFollowLinks) {
  const std::filesystem::path precious = folder_.path() / "precious", making = path_.string() + ".making";
  replace_file(precious, "the work of a year");
  std::filesystem::create_symlink(precious, making);
  refused([&] { open(); }, "it is a link");
  std::filesystem::remove(making);
  std::filesystem::create_hard_link(precious, making);
  refused([&] { open(); }, "it has other names, too");
  std::filesystem::remove(making);
  std::filesystem::create_symlink(precious, path_);
  refused([&] { open(); }, "it is a link");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  refused([&] { open(); }, "");
  EXPECT_EQ(read_file(precious), "the work of a year");
}

TEST_F(ShardFileTest, InAMissingFolderIsNamed) {
  path_ = folder_.path() / "missing" / "shard";
  refused([&] { open(); }, "No such file or directory");
}

TEST_F(ShardFileTest, ThatMayNotBeSoLargeLeavesNothing) {
  ::signal(SIGXFSZ, SIG_IGN);  // growing beyond the limit fails with EFBIG, as on a full disk
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 100'000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    open();
  } catch (const FileError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, AllOf(HasSubstr("cannot make room"), HasSubstr("free some space")));
  EXPECT_EQ(entries(), 0u);
}

// A folder of 2 MiB, in a process of its own: the file fits with the gradients of one worker, not of two.
TEST_F(ShardFileTest, AFullDiskIsAnErrorAndNotASignal) {
  constexpr int kNotPermitted = 77;
  const auto in_small_folder = [&] {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNotPermitted;
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=2m") != 0) return kNotPermitted;
    const auto full = [](const auto& body) {
      try {
        body();
      } catch (const FileError& error) {
        return std::strstr(error.what(), "No space left") != nullptr;
      }
      return false;
    };
    if (!full([&] { open(4 * kCount); })) return 1;
    if (entries() != 0) return 2;
    const auto shard = open();
    std::ranges::fill(shard->stage(0, 1), 1.0f);
    if (!full([&] { shard->stage(1, 1); })) return 3;
    shard->staged(0, 1);
    shard->execute({1, 1, {.kind = Decision::Kind::apply, .worker = 0, .version = 1, .rate = 0.5}});
    return shard->weights()[kCount - 1] == 0.5f ? 0 : 4;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(in_small_folder());
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNotPermitted) GTEST_SKIP() << "this user may not mount a folder of its own";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace paceline
