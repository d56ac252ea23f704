#include "paceline/metrics/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

namespace paceline {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMillisecond = 1'000'000;
constexpr ProgressStyle kAscii = {}, kUnicode = {.unicode = true};
const std::string kErase = "\x1b[K";
const std::string kFirst = "\repoch 0.0/1    1 %  loss 1.000", kThird = "\repoch 0.0/1    3 %  loss 1.000",
                  kLast = "\repoch 0.0/1  100 %  loss 1.000";

const ProgressState kState = {.epoch = 2.4,
                              .epochs = 5,
                              .step = 1124,
                              .steps = 2345,
                              .loss = 0.3123,
                              .accuracy = 0.8891,
                              .test_accuracy = 0.901,
                              .images_per_second = 4812.3,
                              .seconds_left = 42.2};

ProgressState at_step(int64_t step, int64_t steps = 100) {
  return {.epochs = 1, .step = step, .steps = steps, .loss = 1};
}

int width_of(std::string_view text) {  // columns: every character but the bytes that continue one
  int width = 0;
  for (const unsigned char c : text) width += (c & 0xc0) != 0x80;
  return width;
}

// A file that Progress writes to, in an environment that says ASCII and no colour.
class ProgressTest : public testing::Test {
 protected:
  ProgressTest() : out_(std::tmpfile()) {
    ::setenv("LC_ALL", "C", 1);
    ::setenv("NO_COLOR", "1", 1);
    ::setenv("TERM", "xterm", 1);
  }
  ~ProgressTest() override { std::fclose(out_); }

  std::string written() const {
    std::fflush(out_);
    std::string text(static_cast<size_t>(std::ftell(out_)), '\0');
    std::rewind(out_);
    text.resize(std::fread(text.data(), 1, text.size(), out_));
    return text;
  }

  std::FILE* out_;
};

TEST(ProgressText, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(progress_text(kState, 200, kUnicode),
            "epoch 2.4/5  ━━━━━━━━━━━━━━────────────────   47 %  step 1124/2345  loss 0.312  acc 88.9 %  test 90.1 %  "
            "4,812 img/s  0:42 left");
}

TEST(ProgressText, LeavesOutTheLeastImportantPartsWhereItIsNarrow) {
  const std::vector<std::pair<int, std::string>> lines = {
      {107,
       "epoch 2.4/5  ====-.....   47 %  step 1124/2345  loss 0.312  acc 88.9 %  test 90.1 %  4,812 img/s  0:42 left"},
      {106,
       "epoch 2.4/5  ===========-.............   47 %  loss 0.312  acc 88.9 %  test 90.1 %  4,812 img/s  0:42 left"},
      {91, "epoch 2.4/5  ====-.....   47 %  loss 0.312  acc 88.9 %  test 90.1 %  4,812 img/s  0:42 left"},
      {79, "epoch 2.4/5  =====......   47 %  loss 0.312  acc 88.9 %  test 90.1 %  0:42 left"},
      {66, "epoch 2.4/5  =====......   47 %  loss 0.312  acc 88.9 %  0:42 left"},
      {55, "epoch 2.4/5   47 %  loss 0.312  acc 88.9 %  0:42 left"},
      {50, "epoch 2.4/5   47 %  loss 0.312  acc 88.9 %"},
      {40, "epoch 2.4/5   47 %  loss 0.312"},
      {25, "epoch 2.4/5  loss 0.312"},
      {20, "epoch 2.4/5"},
      {11, "epoch 2.4/5"},
      {5, "epoch"},
      {0, ""},
      {-1, ""}};
  for (const auto& [columns, line] : lines) EXPECT_EQ(progress_text(kState, columns, kAscii), line) << columns;
}

TEST(ProgressText, NeverIsWiderThanItsColumns) {
  for (int columns = 0; columns < 200; ++columns) {
    EXPECT_LE(width_of(progress_text(kState, columns, kUnicode)), columns);
    EXPECT_EQ(width_of(progress_text(kState, columns, kUnicode)), width_of(progress_text(kState, columns, kAscii)));
  }
}

// The first test must not push other parts out of the line.
TEST(ProgressText, KeepsItsPartsWhenTheFirstTestComes) {
  ProgressState before = kState;
  before.test_accuracy = -1;
  for (int columns = 60; columns < 140; ++columns) {
    const std::string early = progress_text(before, columns, kAscii), late = progress_text(kState, columns, kAscii);
    for (const char* part : {"step", "acc", "img/s", "left", "%"})
      EXPECT_EQ(early.find(part) == std::string::npos, late.find(part) == std::string::npos)
          << part << " at " << columns;
    const auto bar = [](const std::string& line) {
      return std::ranges::count_if(line, [](char c) { return c == '='; });
    };
    EXPECT_EQ(bar(early), bar(late)) << columns;
    EXPECT_EQ(early.find("test"), std::string::npos);
  }
}

TEST(ProgressText, PartsOfAnEpochHaveTheDigitsThatTheyNeed) {
  const auto begins = [](double epoch, double epochs) {
    return progress_text({.epoch = epoch, .epochs = epochs, .step = 1, .steps = 2}, 20, kAscii);
  };
  EXPECT_THAT(begins(0.125, 0.25), testing::StartsWith("epoch 0.12/0.25"));
  EXPECT_THAT(begins(1.25, 2.5), testing::StartsWith("epoch 1.2/2.5"));
  EXPECT_THAT(begins(1.25, 5), testing::StartsWith("epoch 1.2/5"));
}

TEST(ProgressText, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(progress_text(at_step(50), 100, kAscii),
            "epoch 0.0/1  ===============...............   50 %  step  50/100  loss 1.000");
}

TEST(ProgressText, TheBarIsFullAtTheEndOnly) {
  EXPECT_THAT(progress_text(at_step(0), 100, kAscii), HasSubstr("  ..............................    0 %  "));
  EXPECT_THAT(progress_text(at_step(999, 1000), 100, kAscii), HasSubstr("  =============================-   99 %  "));
  EXPECT_THAT(progress_text(at_step(100), 100, kAscii), HasSubstr("  ==============================  100 %  "));
  EXPECT_THAT(progress_text(at_step(101), 100, kAscii), HasSubstr("  ==============================  100 %  "));
  EXPECT_THAT(progress_text(at_step(0, 0), 100, kAscii), HasSubstr("    0 %  step 0  "));
}

TEST(ProgressText, WithoutATotalOfStepsTheEpochsSayHowFarTheRunIs) {
  EXPECT_EQ(progress_text({.epoch = 0.5, .epochs = 2, .step = 62, .loss = 2}, 80, kAscii),
            "epoch 0.5/2  ======-...................   25 %  step 62  loss 2.000");
}

TEST(ProgressText, BeforeTheFirstLossThereIsNone) {
  EXPECT_EQ(progress_text({.epochs = 1, .steps = 79, .loss = -1}, 80, kAscii),
            "epoch 0.0/1  ..............................    0 %  step  0/79");
}

TEST(ProgressText, NumbersKeepToAReadableForm) {
  ProgressState state = at_step(1);
  const auto text = [&] { return progress_text(state, 200, kAscii); };
  state.loss = NAN;
  EXPECT_THAT(text(), HasSubstr("loss nan"));
  state.loss = 123.456;
  EXPECT_THAT(text(), HasSubstr("loss 123.5"));
  state.images_per_second = 1'234'567;
  EXPECT_THAT(text(), HasSubstr("1,234,567 img/s"));
  state.images_per_second = 999.7;
  EXPECT_THAT(text(), HasSubstr("1,000 img/s"));
  state.images_per_second = 7.256;
  EXPECT_THAT(text(), HasSubstr("7.26 img/s"));
  state.epochs = 90.0034;
  EXPECT_THAT(text(), HasSubstr("epoch 0.0/90  "));
  state.epochs = 2.5;
  EXPECT_THAT(text(), HasSubstr("epoch 0.0/2.5  "));
  state.seconds_left = 59.7;
  EXPECT_THAT(text(), HasSubstr("1:00 left"));
  state.seconds_left = 3 * 3600 + 62;
  EXPECT_THAT(text(), HasSubstr("3:01:02 left"));
  state.seconds_left = INFINITY;
  EXPECT_THAT(text(), Not(HasSubstr("left")));
  state.seconds_left = NAN;
  EXPECT_THAT(text(), Not(HasSubstr("left")));
}

TEST(ProgressText, ColourAddsNoWidth) {
  const ProgressStyle colour = {.unicode = true, .colour = true};
  std::string text = progress_text(kState, 79, colour);
  for (const std::string code : {"\x1b[36m", "\x1b[0;2m", "\x1b[0m"}) {
    ASSERT_THAT(text, HasSubstr(code));
    text.erase(text.find(code), code.size());
  }
  EXPECT_EQ(text, progress_text(kState, 79, kUnicode));
}

TEST_F(ProgressTest, StyleIsWhatTheTerminalSays) {
  const auto style = [](const char* locale, const char* no_colour, const char* terminal) {
    ::setenv("LC_ALL", locale, 1);
    ::setenv("NO_COLOR", no_colour, 1);
    ::setenv("TERM", terminal, 1);
    const ProgressStyle style = style_from_environment();
    return std::pair(style.unicode, style.colour);
  };
  EXPECT_EQ(style("en_US.UTF-8", "", "xterm"), std::pair(true, true));
  EXPECT_EQ(style("C.utf8", "1", "xterm"), std::pair(true, false));
  EXPECT_EQ(style("C", "", "xterm"), std::pair(false, true));
  EXPECT_EQ(style("en_US.UTF-8", "", "dumb"), std::pair(false, false));
}

TEST_F(ProgressTest, LiveLineRedrawsItselfAtMostTenTimesASecond) {
  Progress progress(out_, true, 1, 40);
  progress.update(at_step(1), 0);
  progress.update(at_step(2), 99 * kMillisecond);
  progress.update(at_step(3), 100 * kMillisecond);
  progress.update(at_step(4), 150 * kMillisecond);
  EXPECT_EQ(written(), kFirst + kErase + kThird + kErase);
}

TEST_F(ProgressTest, FinishDrawsTheLastStateAndEndsTheLineOnce) {
  {
    Progress progress(out_, true, 1, 40);
    progress.update(at_step(1), 0);
    progress.update(at_step(100), 1);  // too soon to be drawn
    progress.finish();
    progress.finish();
  }
  EXPECT_EQ(written(), kFirst + kErase + kLast + kErase + "\n");
}

TEST_F(ProgressTest, LinesGoAboveTheLiveOne) {
  Progress progress(out_, true, 1, 40);
  progress.line("before");
  progress.update(at_step(1), 0);
  progress.line("between");
  progress.finish();
  progress.line("after");
  EXPECT_EQ(written(), "before\n" + kFirst + kErase + "\r" + kErase + "between\n" + kFirst + kErase + "\nafter\n");
}

TEST_F(ProgressTest, PlainLinesComeEveryFewStepsWithoutControlCharacters) {
  Progress progress(out_, false, 2);
  for (int64_t step = 1; step <= 5; ++step) progress.update(at_step(step, 5), 0);
  progress.line("a warning");
  progress.finish();
  EXPECT_EQ(written(),
            "epoch 0.0/1  step 2/5  loss 1.000\nepoch 0.0/1  step 4/5  loss 1.000\na warning\n"
            "epoch 0.0/1  step 5/5  loss 1.000\n");
}

TEST_F(ProgressTest, AStepHasOnePlainLineUnlessATestCameAfterIt) {
  Progress progress(out_, false, 2);
  ProgressState last = at_step(2, 2);
  progress.update(last, 0);
  last.images_per_second = 10;
  progress.update(last, 0);
  progress.finish();
  EXPECT_EQ(written(), "epoch 0.0/1  step 2/2  loss 1.000\n");
  progress.update(last, 0);
  last.test_accuracy = 0.5;
  progress.update(last, 0);
  progress.finish();
  EXPECT_NE(written().find("50.0"), std::string::npos) << written();
}

TEST_F(ProgressTest, PlainLinesOfAResumedRunFallOnTheSameSteps) {
  Progress progress(out_, false, 10);
  for (int64_t step = 15; step <= 30; ++step) progress.update(at_step(step), 0);
  progress.finish();
  EXPECT_EQ(written(), "epoch 0.0/1  step  20/100  loss 1.000\nepoch 0.0/1  step  30/100  loss 1.000\n");
}

TEST_F(ProgressTest, PlainLinesMayBeTheLastOneOnly) {
  Progress progress(out_, false, 0);
  progress.update(at_step(1), 0);
  progress.update(at_step(2), 0);
  progress.finish();
  EXPECT_EQ(written(), "epoch 0.0/1  step   2/100  loss 1.000\n");
}

TEST_F(ProgressTest, ADumbTerminalGetsPlainLines) {
  ::setenv("TERM", "dumb", 1);
  Progress progress(out_, true, 1);
  progress.update(at_step(1), 0);
  EXPECT_EQ(written(), "epoch 0.0/1  step   1/100  loss 1.000\n");
}

TEST_F(ProgressTest, WithoutAWidthOrATerminalTheLineIsEightyColumns) {
  Progress progress(out_, true, 1);
  progress.update(kState, 0);
  const std::string start = "\r";
  EXPECT_EQ(written(), start + progress_text(kState, 79, kAscii) + kErase);
}

TEST_F(ProgressTest, FollowsTheWidthOfTheTerminal) {
  winsize size{.ws_row = 24, .ws_col = 50, .ws_xpixel = 0, .ws_ypixel = 0};
  int master = -1, slave = -1;
  if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  std::FILE* terminal = ::fdopen(slave, "w");
  const auto shown = [&] {
    std::string text(1000, '\0');
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(master, text.data(), text.size()))));
    return text;
  };
  {
    Progress progress(terminal, true, 1);
    const std::string start = "\r";
    progress.update(kState, 0);
    EXPECT_EQ(shown(), start + progress_text(kState, 49, kAscii) + kErase);
    size.ws_col = 30;
    ::ioctl(slave, TIOCSWINSZ, &size);
    progress.update(kState, 100 * kMillisecond);
    EXPECT_EQ(shown(), start + progress_text(kState, 29, kAscii) + kErase);
  }
  std::fclose(terminal);
  ::close(master);
}

TEST_F(ProgressTest, NothingIsPrintedWithoutAState) {
  { Progress progress(out_, true, 1); }
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressTest, LinesOfManyThreadsStayWhole) {
  {
    Progress progress(out_, false, 1);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          progress.line("from a thread");
          progress.update(at_step(100 * t + i + 1), 0);
        }
      });
    }
    threads.clear();
  }
  std::string text = written();
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const std::string line = text.substr(at, end - at);
    EXPECT_THAT(line, testing::AnyOf("from a thread", testing::StartsWith("epoch 0.0/1  step ")));
  }
}

}  // namespace
}  // namespace paceline
