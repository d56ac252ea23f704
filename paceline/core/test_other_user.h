// For tests of what this process may not do: as the superuser, to whom nothing is forbidden, it is nobody for a while.
#pragma once

#include <unistd.h>

#include <filesystem>

namespace paceline {

// Files that are made meanwhile are nobody's, and so is `folder`, which stays so.
class OrdinaryUser {
 public:
  explicit OrdinaryUser(const std::filesystem::path& folder) : was_(::geteuid()) {
    constexpr uid_t kNobody = 65534;
    if (was_ == 0) holds_ = ::chown(folder.c_str(), kNobody, static_cast<gid_t>(-1)) == 0 && ::seteuid(kNobody) == 0;
  }
  ~OrdinaryUser() { [[maybe_unused]] const int back = ::seteuid(was_); }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

  bool holds() const { return holds_; }  // false: this place has no user nobody

 private:
  const uid_t was_;
  bool holds_ = true;
};

}  // namespace paceline
