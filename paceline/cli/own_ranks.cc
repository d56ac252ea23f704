#include "paceline/cli/own_ranks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "paceline/cli/crowding.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/rendezvous/identity.h"

namespace paceline {
namespace {

// As the kernel keeps them: each ends with a zero byte.
std::vector<std::string> own_arguments() {
  const std::string all = read_file("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\0', begin), all.size());
    arguments.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

}  // namespace

bool is_rank() { return find_identity(process_environment()).starter != Identity::Starter::alone; }

std::optional<int> starts_before() {
  const char* text = std::getenv("PACELINE_RESTARTS");
  return text != nullptr ? std::optional<int>(std::atoi(text)) : std::nullopt;
}

int launch_own_ranks(LaunchOptions options, const std::vector<std::string>& more) {
  if (options.hosts.empty()) {
    const std::string what = fmt::format("--ranks {}", options.ranks);
    require_possible(what, options.ranks);
    warn_of_crowding(what, options.ranks);
  }
  options.prefixes = false;
  options.command = own_arguments();
  options.command.at(0) = std::filesystem::read_symlink("/proc/self/exe").string();
  options.command.insert(options.command.end(), more.begin(), more.end());
  return launch(options);
}

void require_ranks(int asked) {
  const int started = find_identity(process_environment()).size;
  if (asked != 0 && asked != started)
    throw UsageError(fmt::format("--ranks {}, but {} were started: leave it out", asked, started));
}

}  // namespace paceline
