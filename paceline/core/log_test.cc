#include "paceline/core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/core/error.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

using testing::ElementsAre;

struct Lines {
  std::vector<std::string> lines;
  Log::Console console() {
    return [this](std::string_view line) { lines.emplace_back(line); };
  }
};

std::filesystem::path new_folder() {
  std::string name = testing::TempDir() + "paceline_log_XXXXXX";
  return ::mkdtemp(name.data());
}

TEST(Log, ConsoleShowsInfoAndAboveWithItsSeverity) {
  Lines shown;
  Log log(shown.console());
  log.debug("not this {}", 1);
  log.info("step {}", 2);
  log.warning("slow");
  log.error("stuck");
  EXPECT_THAT(shown.lines, ElementsAre("step 2", "warning: slow", "error: stuck"));
}

TEST(Log, ConsoleShowsWhatItsLevelAsks) {
  Lines shown;
  Log log(shown.console());
  log.set_level(Log::Level::debug);
  log.debug("detail");
  log.set_level(Log::Level::error);
  log.warning("not this");
  EXPECT_THAT(shown.lines, ElementsAre("detail"));
}

TEST(Log, BracesInAnArgumentAreText) {
  Lines shown;
  Log log(shown.console());
  log.info("{}", "a {} b %d");
  EXPECT_THAT(shown.lines, ElementsAre("a {} b %d"));
}

TEST(Log, FileGetsEverythingWithTimeAndLevel) {
  const auto folder = new_folder();
  {
    Log log(nullptr);
    log.set_level(Log::Level::error);  // of the console alone
    log.write_to(folder / "log.txt");
    log.debug("one {}", 1);
    log.error("two {{}}");
    const std::string text = read_file(folder / "log.txt");  // at once: a killed run keeps its last line
    const std::string time = "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\\.[0-9]{3} ";
    EXPECT_THAT(text, testing::MatchesRegex(time + "debug one 1\n" + time + "error two \\{\\}\n"));
  }
  std::filesystem::remove_all(folder);
}

TEST(Log, ContinuesAnExistingFile) {
  const auto folder = new_folder();
  for (const char* text : {"first run", "second run"}) {
    Log log(nullptr);
    log.write_to(folder / "log.txt");
    log.info("{}", text);
  }
  EXPECT_THAT(read_file(folder / "log.txt"), testing::ContainsRegex("first run\n.*second run\n"));
  std::filesystem::remove_all(folder);
}

TEST(Log, AFileThatCannotBeOpenedIsNamed) {
  Log log(nullptr);
  EXPECT_THAT([&] { log.write_to("/dev/null/log.txt"); },
              testing::ThrowsMessage<FileError>(testing::HasSubstr("/dev/null/log.txt")));
}

}  // namespace
}  // namespace paceline
