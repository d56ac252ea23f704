// Files that are whole or not there: written beside their name, flushed to the disk, then renamed.
// Every failure is a FileError that names the file, the cause, and what to do about a full disk.
//
// What is made here is the owner's alone (files 0600, folders 0700): weights, metrics and logs of a run tell of data
// that other users of the machine may not see. What is there already keeps its mode.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace paceline {

class Sha256;

// Who may read what is made: its owner, or whom the umask lets.
enum class Readers { owner, as_umask };

std::string read_file(const std::filesystem::path& path);

// Replaces `path` with `contents`, atomically: after a crash it holds either the old or the new.
void replace_file(const std::filesystem::path& path, std::string_view contents, Readers readers = Readers::owner);

// With all folders above it, of which those that are new are flushed to the disk.
void make_directories(const std::filesystem::path& path, Readers readers = Readers::owner);
// An empty file for its owner, where there is none: for those who open a file by its name and cannot give a mode.
void make_private_file(const std::filesystem::path& path);
// Removes a file, or a folder with all that is in it. Returns why it could not, and "" when nothing is left: what
// cannot be removed (a file of another user, one that NFS keeps for a reader) is worth a warning and seldom the end of
// a run.
std::string remove_path(const std::filesystem::path& path);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);  // and flushes the parent folder
void sync_directory(const std::filesystem::path& path);

// A new file, written in pieces. It counts only after finish(), which flushes it to the disk; without, it is removed.
class DurableFile {
 public:
  // `hash`, if any, gets every byte that is written.
  explicit DurableFile(std::filesystem::path path, Sha256* hash = nullptr, Readers readers = Readers::owner);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void finish();

 private:
  std::filesystem::path path_;
  Sha256* const hash_;
  int descriptor_;
  bool finished_ = false;
};

}  // namespace paceline
