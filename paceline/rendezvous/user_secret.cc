#include "paceline/rendezvous/user_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>

#include "paceline/comm/topology.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/rendezvous/descriptor.h"

namespace paceline {
namespace {

constexpr const char* kInstead = "or set PACELINE_SECRET to the same value on all ranks";

bool write_and_flush(const std::string& path, const std::string& text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  return file.number() >= 0 && ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
         ::fsync(file.number()) == 0;
}

// Whichever rank of the user comes first makes it: a link is there whole or not at all.
void draw_secret(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  make_directories(folder);
  const std::string mine = (folder / fmt::format(".secret-{}-{}", host_name(), ::getpid())).string();
  const bool linked = write_and_flush(mine, Secret::random().reveal() + "\n") &&
                      (::link(mine.c_str(), file.c_str()) == 0 || errno == EEXIST);
  ::unlink(mine.c_str());
  if (!linked) throw FileError(fmt::format("cannot write {}: make room there, {}", file.string(), kInstead));
  sync_directory(folder);
}

void require_private(const std::filesystem::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0 || (status.st_mode & 077) == 0) return;
  throw UsageError(fmt::format(
      "other users may read or write {0} (mode {1:o}): chmod 600 {0}; if one of them did, remove it when no "
      "run of yours is left, and the next run draws another, {2}",
      file.string(), status.st_mode & 07777, kInstead));
}

}  // namespace

Secret user_secret(const Environment& environment) {
  const std::optional<std::string> home = environment("HOME");
  if (!home || home->empty())
    throw UsageError(
        "the ranks of this run need a shared secret, and there is no HOME to keep one in: set PACELINE_SECRET to the "
        "same value on all ranks (PACELINE_SECRET=$(openssl rand -hex 32))");
  const std::filesystem::path file = std::filesystem::path(*home) / ".config" / "paceline" / "secret";
  if (!std::filesystem::exists(file)) draw_secret(file);
  require_private(file);
  const std::string text = read_file(file);
  const std::string secret = text.substr(0, text.find_first_of("\r\n"));
  if (secret.empty())
    throw UsageError(fmt::format("{} is empty: anybody could guess it; remove it, and the next run draws another, {}",
                                 file.string(), kInstead));
  return Secret(secret);
}

}  // namespace paceline
