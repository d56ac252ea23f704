#include "paceline/ps/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "paceline/core/error.h"

namespace paceline {
namespace {

[[noreturn]] void fail(const char* verb, const std::filesystem::path& path, int code) {
  const char* advice = code == ENOSPC || code == EDQUOT || code == EFBIG || code == ENOMEM
                           ? "; free some space or choose another folder for the server's state"
                           : "";
  throw FileError(fmt::format("cannot {} {}: {}{}", verb, path.string(), std::strerror(code), advice));
}

[[noreturn]] void refuse(const std::filesystem::path& path, const char* why) {
  throw FileError(fmt::format("{} is not used: {}; remove it, or choose another folder for the server's state",
                              path.string(), why));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, size_t bytes, size_t reserved_bytes,
                       const std::function<void(std::span<std::byte>)>& fill)
    : path_(path) {
  const std::filesystem::path beside = path.string() + ".making";
  try {
    // Another process may give the file its name in between: then the next turn finds it.
    while (true) {
      if (open_and_lock(path)) {
        struct stat status = {};
        if (::fstat(descriptor_, &status) != 0) fail("look at", path_, errno);
        if (status.st_size == 0) throw FileError(path_.string() + " is empty; remove it or choose another folder");
        map(static_cast<size_t>(status.st_size));
        return;
      }
      if (!create_and_lock(beside)) continue;
      if (::access(path.c_str(), F_OK) == 0) {
        ::unlink(beside.c_str());
        close();
        continue;
      }
      try {
        if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail("make room for", path_, errno);
        reserve(0, reserved_bytes);
        map(bytes);
        fill({memory_, bytes_});
        if (::rename(beside.c_str(), path.c_str()) != 0) fail("rename to", path_, errno);
      } catch (...) {
        ::unlink(beside.c_str());
        throw;
      }
      return;
    }
  } catch (...) {
    close();
    throw;
  }
}

MappedFile::~MappedFile() { close(); }

bool MappedFile::open_and_lock(const std::filesystem::path& path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ < 0 && errno == ENOENT) return false;
  if (descriptor_ < 0 && errno == ELOOP) refuse(path, "it is a link");
  if (descriptor_ < 0) fail("open", path, errno);
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) fail("look at", path, errno);
  if (!S_ISREG(status.st_mode)) refuse(path, "it is no file");
  if (status.st_uid != ::geteuid()) refuse(path, "it belongs to another user");
  if (status.st_nlink > 1) refuse(path, "it has other names, too");
  if ((status.st_mode & 022) != 0) refuse(path, "other users may write to it");
  if ((status.st_mode & 077) != 0 && ::fchmod(descriptor_, 0600) != 0) fail("close to other users", path, errno);
  return lock(path);
}

bool MappedFile::create_and_lock(const std::filesystem::path& path) {
  // What a process that died here has left is made anew; one that is still there holds it.
  if (open_and_lock(path)) {
    ::unlink(path.c_str());
    close();
  }
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor_ < 0 && errno == EEXIST) return false;
  if (descriptor_ < 0) fail("open", path, errno);
  return lock(path);
}

bool MappedFile::lock(const std::filesystem::path& path) {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail("lock", path, errno);
    throw FileError(fmt::format("{} is held by another process; is a server of this run still there?", path.string()));
  }
  // The name may have gone to another file, or away, before the lock was ours.
  struct stat ours = {}, named = {};
  if (::fstat(descriptor_, &ours) != 0) fail("look at", path, errno);
  if (::lstat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) return true;
  close();
  return false;
}

void MappedFile::map(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) fail("map", path_, errno);
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
}

void MappedFile::reserve(size_t begin, size_t bytes) {
  if (bytes == 0) return;
  int code;
  do {
    code = ::posix_fallocate(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (code == EINTR);
  if (code != 0) fail("make room for", path_, code);
}

void MappedFile::close() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
  memory_ = nullptr;
  descriptor_ = -1;
}

}  // namespace paceline
