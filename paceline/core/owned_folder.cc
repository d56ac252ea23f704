#include "paceline/core/owned_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "paceline/core/error.h"
#include "paceline/core/hmac.h"

namespace paceline {
namespace {

int open_folder(const std::filesystem::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Of this user, and locked by no process; then the lock is the caller's.
bool is_abandoned(int descriptor) {
  struct stat status = {};
  return ::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid() &&
         ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

// The folder gets its name after the lock is held, so that no process takes it for an abandoned one.
OwnedFolder::OwnedFolder(const std::filesystem::path& parent, const std::string& prefix) {
  const std::string name = fmt::format("{}-{}", prefix, random_hex(8));
  const std::filesystem::path unnamed = parent / fmt::format(".{}.new", name);
  path_ = parent / name;
  const auto fail = [&](int error) {
    throw FileError(fmt::format("cannot create folder {}: {}", path_.string(), std::strerror(error)));
  };
  if (::mkdir(unnamed.c_str(), 0700) != 0) fail(errno);
  descriptor_ = open_folder(unnamed);
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 &&
      ::renameat2(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0)
    return;
  const int error = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  ::rmdir(unnamed.c_str());
  fail(error);
}

OwnedFolder::~OwnedFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  ::close(descriptor_);
}

int remove_abandoned_folders(const std::filesystem::path& parent, const std::string& prefix) {
  int removed = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    if (!entry.path().filename().string().starts_with(prefix + "-")) continue;
    const int descriptor = open_folder(entry.path());
    if (descriptor < 0) continue;  // another user's, or gone already
    if (is_abandoned(descriptor) && std::filesystem::remove_all(entry.path(), ignored) > 0) ++removed;
    ::close(descriptor);
  }
  return removed;
}

}  // namespace paceline
