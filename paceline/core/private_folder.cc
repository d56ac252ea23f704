#include "paceline/core/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "paceline/core/error.h"

namespace paceline {
namespace {

FileError unfit_folder(const std::filesystem::path& path, const std::string& why) {
  return FileError(fmt::format("{} is not used: {}; remove it, or choose another folder", path.string(), why));
}

// An open descriptor: what was looked at stays what is changed.
class OpenFolder {
 public:
  explicit OpenFolder(const std::filesystem::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}
  ~OpenFolder() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  struct stat status() const {
    struct stat status = {};
    ::fstat(descriptor_, &status);
    return status;
  }
  bool close_to_others() const { return ::fchmod(descriptor_, 0700) == 0; }

 private:
  int descriptor_;
};

}  // namespace

void make_private_folder(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return;
  if (errno != EEXIST) throw FileError(fmt::format("cannot create folder {}: {}", path.string(), std::strerror(errno)));
  const OpenFolder folder(path);
  if (!folder.is_open()) throw unfit_folder(path, "it is no folder that this user may read");
  const struct stat status = folder.status();
  if (status.st_uid != ::geteuid()) throw unfit_folder(path, "it belongs to another user");
  if ((status.st_mode & 022) != 0) throw unfit_folder(path, "other users may write to it");
  if ((status.st_mode & 077) != 0 && !folder.close_to_others())
    throw FileError(fmt::format("cannot close {} to other users: {}", path.string(), std::strerror(errno)));
}

bool is_own_folder(const std::filesystem::path& path) {
  const OpenFolder folder(path);
  return folder.is_open() && folder.status().st_uid == ::geteuid();
}

}  // namespace paceline
