#include "paceline/train/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "paceline/core/error.h"

namespace paceline {

RunLock::RunLock(const RunFolder& folder) {
  const std::string path = (folder.root / ".lock").string();
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) throw FileError(fmt::format("cannot create {}: {}", path, std::strerror(errno)));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int code = errno;
  ::close(descriptor_);
  if (code != EWOULDBLOCK) throw FileError(fmt::format("cannot lock {}: {}", path, std::strerror(code)));
  throw FileError(fmt::format("another process is training in {}; wait for it, or choose another folder with --out",
                              folder.root.string()));
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace paceline
