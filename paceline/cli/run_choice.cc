#include "paceline/cli/run_choice.h"

#include <fmt/format.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

RunFolder numbered(const std::string& title, int number) {
  return {std::filesystem::path("runs") / (number == 1 ? title : fmt::format("{}-{}", title, number))};
}

}  // namespace

RunFolder choose_run_folder(const std::string& title, const std::string& out, bool resume) {
  if (!out.empty()) {
    const RunFolder folder = {out};
    if (folder.holds_a_run() && !resume) {
      throw UsageError(
          fmt::format("{} holds a run already; add --resume to go on with it, or choose another --out", out));
    }
    if (!folder.holds_a_run() && resume && !std::filesystem::exists(folder.root)) {
      throw UsageError(fmt::format("there is no run to resume in {}; leave --resume out to start one there", out));
    }
    return folder;
  }
  int free = 1;
  while (numbered(title, free).holds_a_run()) ++free;
  if (!resume) return numbered(title, free);
  if (free == 1)
    throw UsageError(fmt::format(
        "there is no run of '{}' to resume in runs/; leave --resume out to start one, or name its folder with --out",
        title));
  return numbered(title, free - 1);
}

}  // namespace paceline
