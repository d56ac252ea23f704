// Folders that no other user can enter: what lies in them is neither read nor replaced by links, even where their names
// can be foreseen and their parent is /tmp or /dev/shm.
#pragma once

#include <filesystem>

namespace paceline {

// Makes the folder with mode 0700; its parent must exist. A folder that is there already is taken when it is this
// user's and no other user could have written to it; its mode becomes 0700. Throws FileError that says what is in the
// way: a link, a file, a folder of another user or one that others may write to.
void make_private_folder(const std::filesystem::path& path);

// Whether `path` is a folder, no link, and this user's.
bool is_own_folder(const std::filesystem::path& path);

}  // namespace paceline
