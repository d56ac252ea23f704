// OwnedFolder: a private folder with a random name, for what has to outlive single processes of a run but not the run.
//
// The owner holds a lock on the folder, which ends with the owner's process, however that ends: a folder that another
// process can lock is abandoned. Process numbers could not tell that: containers that share /dev/shm each have numbers
// of their own, and a number comes again.
#pragma once

#include <filesystem>
#include <string>

namespace paceline {

class OwnedFolder {
 public:
  // Makes `parent`/PREFIX-RANDOM with mode 0700. Throws FileError.
  OwnedFolder(const std::filesystem::path& parent, const std::string& prefix);
  ~OwnedFolder();  // removes it, with all that lies in it
  OwnedFolder(const OwnedFolder&) = delete;
  OwnedFolder& operator=(const OwnedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;  // holds the lock
};

// Removes the abandoned folders of this name that are this user's. Returns how many.
int remove_abandoned_folders(const std::filesystem::path& parent, const std::string& prefix);

}  // namespace paceline
