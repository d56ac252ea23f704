#include "paceline/launch/rank_printer.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace paceline {
namespace {

constexpr int kNoteColour = 90;                                        // grey
constexpr std::array<int, 6> kRankColours = {36, 32, 33, 35, 34, 96};  // not red, which is for errors

bool is_same_file(int a, int b) {
  struct stat status_a, status_b;
  return ::fstat(a, &status_a) == 0 && ::fstat(b, &status_b) == 0 && status_a.st_dev == status_b.st_dev &&
         status_a.st_ino == status_b.st_ino;
}

bool shows_colours(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (no_color == nullptr || *no_color == '\0') &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

}  // namespace

RankPrinter::RankPrinter(PollLoop& loop, bool prefixes)
    : output_(std::make_shared<Outlet>(loop, STDOUT_FILENO)),
      errors_(is_same_file(STDOUT_FILENO, STDERR_FILENO) ? output_ : std::make_shared<Outlet>(loop, STDERR_FILENO)),
      prefixes_(prefixes),
      colours_{shows_colours(STDOUT_FILENO), shows_colours(STDERR_FILENO)} {}

void RankPrinter::print(int rank, Stream stream, std::string_view line) {
  write(stream, fmt::format("[{}]", rank), kRankColours[static_cast<size_t>(rank) % kRankColours.size()], line);
}

void RankPrinter::note(const std::string& from, std::string_view line) {
  write(Stream::errors, fmt::format("[{}]", from), kNoteColour, line);
}

void RankPrinter::write(Stream stream, std::string_view label, int colour, std::string_view line) {
  Outlet& outlet = stream == Stream::output ? *output_ : *errors_;
  if (!prefixes_)
    outlet.write(fmt::format("{}\n", line));
  else if (colours_[static_cast<size_t>(stream)])
    outlet.write(fmt::format("\x1b[{}m{}\x1b[0m {}\n", colour, label, line));
  else
    outlet.write(fmt::format("{} {}\n", label, line));
}

}  // namespace paceline
