#include "paceline/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/sha256.h"

namespace paceline {
namespace {

[[noreturn]] void fail(const char* verb, const std::filesystem::path& path, int code) {
  const char* advice =
      code == ENOSPC || code == EDQUOT || code == EFBIG ? "; free some space or choose another folder with --out" : "";
  throw FileError(fmt::format("cannot {} {}: {}{}", verb, path.string(), std::strerror(code), advice));
}

mode_t mode_for(Readers readers) { return readers == Readers::owner ? 0600 : 0666; }

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

// A rename would put a file in the place of a device or a pipe.
void require_replaceable(const std::filesystem::path& path) {
  std::error_code absent;
  const auto type = std::filesystem::status(path, absent).type();
  using enum std::filesystem::file_type;
  if (type == character || type == block || type == fifo || type == socket)
    throw FileError(fmt::format("cannot write {}: it is no regular file; name another", path.string()));
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail("read", path, errno);
  std::string contents;
  std::array<char, 1 << 16> block;
  while (stream.read(block.data(), block.size()) || stream.gcount() > 0) {
    contents.append(block.data(), static_cast<size_t>(stream.gcount()));
  }
  if (stream.bad()) fail("read", path, errno);  // a folder opens, and cannot be read
  return contents;
}

void replace_file(const std::filesystem::path& path, std::string_view contents, Readers readers) {
  require_replaceable(path);
  const std::filesystem::path beside = path.string() + ".writing";
  ::unlink(beside.c_str());  // of a writer that was killed; it may have another mode
  DurableFile file(beside, nullptr, readers);
  file.write(contents);
  file.finish();
  try {
    rename_path(beside, path);
  } catch (const FileError&) {
    ::unlink(beside.c_str());
    throw;
  }
}

void make_directories(const std::filesystem::path& path, Readers readers) {
  std::error_code unknown;
  std::vector<std::filesystem::path> absent;  // the deepest first
  for (std::filesystem::path folder = path; !folder.empty() && !std::filesystem::exists(folder, unknown);
       folder = folder.parent_path())
    absent.push_back(folder);
  for (auto folder = absent.rbegin(); folder != absent.rend(); ++folder) {
    if (::mkdir(folder->c_str(), readers == Readers::owner ? 0700 : 0777) != 0 && errno != EEXIST)
      fail("create folder", path, errno);
    sync_directory(parent_of(*folder));
  }
  if (!std::filesystem::is_directory(path, unknown)) fail("create folder", path, ENOTDIR);
}

void make_private_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, mode_for(Readers::owner));
  if (descriptor < 0) fail("create", path, errno);
  ::close(descriptor);
}

std::string remove_path(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::remove_all(path, failure);
  return failure ? fmt::format("cannot remove {}: {}", path.string(), failure.message()) : "";
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail("rename to", to, errno);
  sync_directory(parent_of(to));
}

void sync_directory(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open folder", path, errno);
  const int result = ::fsync(descriptor);
  const int code = errno;
  ::close(descriptor);
  if (result != 0) fail("flush folder", path, code);
}

DurableFile::DurableFile(std::filesystem::path path, Sha256* hash, Readers readers)
    : path_(std::move(path)), hash_(hash) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode_for(readers));
  if (descriptor_ < 0) fail("create", path_, errno);
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!finished_) ::unlink(path_.c_str());
}

void DurableFile::write(const void* data, size_t bytes) {
  if (hash_ != nullptr) hash_->update(data, bytes);
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

void DurableFile::finish() {
  if (::fsync(descriptor_) != 0) fail("flush", path_, errno);
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail("close", path_, errno);
  finished_ = true;
}

}  // namespace paceline
