#include "paceline/launch/line_splitter.h"

#include <gmock/gmock.h>

#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> lines_of(const std::vector<std::string>& pieces, LineSplitter::Options options = {}) {
  std::vector<std::string> lines;
  LineSplitter splitter([&](std::string_view line) { lines.emplace_back(line); }, options);
  for (const std::string& piece : pieces) splitter.feed(piece);
  splitter.finish();
  return lines;
}

TEST(LineSplitter, JoinsPiecesToLines) {
  EXPECT_THAT(lines_of({"a", "b\nc", "\n", "d\n"}), ElementsAre("ab", "c", "d"));
  EXPECT_THAT(lines_of({}), IsEmpty());
}

TEST(LineSplitter, KeepsEmptyLines) { EXPECT_THAT(lines_of({"\n\na\n\n"}), ElementsAre("", "", "a", "")); }

TEST(LineSplitter, GivesTheLastLineThatHasNoEnd) { EXPECT_THAT(lines_of({"a\nb"}), ElementsAre("a", "b")); }

TEST(LineSplitter, TakesReturnAndNewlineForOneEnd) {
  EXPECT_THAT(lines_of({"a\r\nb\r\n"}), ElementsAre("a", "b"));
  EXPECT_THAT(lines_of({"a\r", "\nb"}), ElementsAre("a", "b"));
  EXPECT_THAT(lines_of({"a\r\n\r\nb"}), ElementsAre("a", "", "b"));
}

TEST(LineSplitter, MakesLinesOfAProgressBar) {
  EXPECT_THAT(lines_of({"\r10 %", "\r50 %\r100 %\n", "done"}), ElementsAre("10 %", "50 %", "100 %", "done"));
}

TEST(LineSplitter, LeavesReturnsAloneOnRequest) {
  EXPECT_THAT(lines_of({"a\rb\n"}, {.returns_end_lines = false}), ElementsAre("a\rb"));
}

TEST(LineSplitter, CutsLongLines) {
  EXPECT_THAT(lines_of({"abcdefgh\n"}, {.longest_bytes = 3}), ElementsAre("abc", "def", "gh"));
  EXPECT_THAT(lines_of({"abc\n"}, {.longest_bytes = 3}), ElementsAre("abc"));
  EXPECT_THAT(lines_of({"ab", "cd", "ef\n"}, {.longest_bytes = 3}), ElementsAre("abc", "def"));
}

TEST(LineSplitter, CutsBetweenCharacters) {
  EXPECT_THAT(lines_of({"ab\u00e9cd"}, {.longest_bytes = 3}), ElementsAre("ab", "\u00e9c", "d"));
  EXPECT_THAT(lines_of({"\x80\x80\x80\x80\x80\x80"}, {.longest_bytes = 3}).size(), 2);  // no UTF-8: anywhere
}

}  // namespace
}  // namespace paceline
