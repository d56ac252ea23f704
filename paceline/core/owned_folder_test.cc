#include "paceline/core/owned_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

constexpr const char* kPrefix = "paceline-test";

std::filesystem::path only_entry(const std::filesystem::path& parent) {
  std::filesystem::path found;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) found = entry.path();
  return found;
}

// A process that owns a folder with a file in it until it is killed.
class Owner {
 public:
  explicit Owner(const std::filesystem::path& parent) {
    int ready[2];
    if (::pipe(ready) != 0) throw FileError("no pipe");
    child_ = ::fork();
    if (child_ == 0) {
      const OwnedFolder folder(parent, kPrefix);
      std::ofstream(folder.path() / "state") << "kept";
      [[maybe_unused]] const ssize_t told = ::write(ready[1], "y", 1);
      for (;;) ::pause();
    }
    char answer = 0;
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Owner() { kill(); }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  pid_t child_ = 0;
};

TEST(OwnedFolder, IsPrivateHasARandomNameAndGoesWithItsOwner) {
  const TestFolder parent;
  {
    const OwnedFolder one(parent.path(), kPrefix), other(parent.path(), kPrefix);
    EXPECT_NE(one.path(), other.path());
    EXPECT_EQ(std::filesystem::status(one.path()).permissions(), static_cast<std::filesystem::perms>(0700));
    std::ofstream(one.path() / "state") << "kept";
  }
  EXPECT_TRUE(std::filesystem::is_empty(parent.path()));
}

TEST(OwnedFolder, OfALiveProcessIsLeftAloneAndOfAKilledOneRemoved) {
  const TestFolder parent;
  Owner owner(parent.path());
  EXPECT_EQ(remove_abandoned_folders(parent.path(), kPrefix), 0);
  EXPECT_TRUE(std::filesystem::exists(only_entry(parent.path()) / "state"));
  owner.kill();
  EXPECT_TRUE(std::filesystem::exists(only_entry(parent.path()) / "state"));
  EXPECT_EQ(remove_abandoned_folders(parent.path(), kPrefix), 1);
  EXPECT_TRUE(std::filesystem::is_empty(parent.path()));
}

TEST(OwnedFolder, FoldersOfOtherNamesLinksAndOtherUsersAreNotRemoved) {
  const TestFolder parent, elsewhere;
  std::filesystem::create_directory(parent.path() / "paceline-tests-of-others");
  std::filesystem::create_directory_symlink(elsewhere.path(), parent.path() / "paceline-test-link");
  std::ofstream(elsewhere.path() / "precious") << "kept";
  if (::geteuid() == 0) {
    std::filesystem::create_directory(parent.path() / "paceline-test-theirs");
    ASSERT_EQ(::chown((parent.path() / "paceline-test-theirs").c_str(), 65534, 65534), 0);
  }
  const auto entries = [&] { return std::distance(std::filesystem::directory_iterator(parent.path()), {}); };
  const auto before = entries();
  EXPECT_EQ(remove_abandoned_folders(parent.path(), kPrefix), 0);
  EXPECT_EQ(entries(), before);
  EXPECT_TRUE(std::filesystem::exists(elsewhere.path() / "precious"));
}

TEST(OwnedFolder, AParentThatIsNotThereIsNamed) {
  EXPECT_THROW(OwnedFolder("/nowhere/at/all", kPrefix), FileError);
  EXPECT_EQ(remove_abandoned_folders("/nowhere/at/all", kPrefix), 0);
}

}  // namespace
}  // namespace paceline
