// A file that only grows, written in whole pieces: what the recorder and the event file stand on.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace paceline {

// Pieces are gathered and written by flush(), or when many have come together. Every failure is a FileError.
// A crash of the machine may lose the last seconds: nothing is forced to the disk.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);  // continues an existing file
  ~AppendFile();                                    // flushes; too late to report a failure, so call flush() yourself
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view piece);
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
  std::string pending_;
};

}  // namespace paceline
