#include "paceline/metrics/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr size_t kPendingBytes = 64 << 10;

[[noreturn]] void fail(const char* verb, const std::filesystem::path& path, int code) {
  const char* advice = code == ENOSPC || code == EDQUOT ? "; free some space, then resume the run" : "";
  throw FileError(fmt::format("cannot {} {}: {}{}", verb, path.string(), std::strerror(code), advice));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor_ < 0) fail("open", path_, errno);
}

AppendFile::~AppendFile() {
  try {
    flush();
  } catch (const FileError&) {  // a destructor has nobody to tell
  }
  ::close(descriptor_);
}

void AppendFile::append(std::string_view piece) {
  pending_ += piece;
  if (pending_.size() >= kPendingBytes) flush();
}

void AppendFile::flush() {
  const std::string pieces =
      std::exchange(pending_, {});  // gone even on failure: half of it may already be in the file
  for (size_t done = 0; done < pieces.size();) {
    const ssize_t written = ::write(descriptor_, pieces.data() + done, pieces.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    done += static_cast<size_t>(written);
  }
}

}  // namespace paceline
