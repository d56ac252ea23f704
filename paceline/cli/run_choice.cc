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
    return folder;
  }
  int free = 1;
  while (numbered(title, free).holds_a_run()) ++free;
  return numbered(title, resume && free > 1 ? free - 1 : free);
}

}  // namespace paceline
