// MappedFile: a file mapped into memory, held by one process at a time.
//
// What is stored there outlives the process, however it ends. Memory is reserved before it is touched, so that a full
// disk is a FileError and not a signal. No other user reads or locks it: its mode is 0600, links are not followed, and
// a file of another user, or one with several names, is refused.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

namespace paceline {

class MappedFile {
 public:
  // Opens `path` and maps all of it. Where there is none: makes one of `bytes`, of which the first `reserved_bytes`
  // are reserved, lets `fill` write to it (all zero so far), and gives it its name only then. Throws FileError for a
  // file that another process holds, and for what the file system refuses.
  MappedFile(const std::filesystem::path& path, size_t bytes, size_t reserved_bytes,
             const std::function<void(std::span<std::byte>)>& fill);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<std::byte> bytes() const { return {memory_, bytes_}; }
  const std::filesystem::path& path() const { return path_; }
  void reserve(size_t begin, size_t bytes);  // throws FileError when there is no room. From any thread

 private:
  bool open_and_lock(const std::filesystem::path& path);    // false: there is none, or no longer
  bool create_and_lock(const std::filesystem::path& path);  // false: another process is faster
  bool lock(const std::filesystem::path& path);             // false: the name is no longer this file's
  void map(size_t bytes);
  void close();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace paceline
