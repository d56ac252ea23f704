#include "paceline/metrics/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstring>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using std::string_literals::operator""s;

class EventFileTest : public testing::Test {
 protected:
  const TestFolder test_folder_;
  const std::filesystem::path folder_ = test_folder_.path();
};

TEST(Crc32c, GivesTheKnownAnswers) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // these four: RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cu);
}

TEST(TfRecord, FramesDataWithItsLengthAndMaskedCrcs) {
  const auto masked = [](std::string_view bytes) {  // ((crc >> 15) | (crc << 17)) + 0xa282ead8, little-endian
    const uint32_t crc = crc32c(bytes), mask = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    return std::string{static_cast<char>(mask), static_cast<char>(mask >> 8), static_cast<char>(mask >> 16),
                       static_cast<char>(mask >> 24)};
  };
  const std::string length = "\x03\0\0\0\0\0\0\0"s;
  EXPECT_EQ(tf_record("abc"), length + masked(length) + "abc" + masked("abc"));
  EXPECT_EQ(tf_record("").size(), 16u);
}

TEST_F(EventFileTest, HoldsItsVersionThenThePurgeThenThePoints) {
  // 1.5 as a double, 0.25 as a float, little-endian.
  const std::string time = "\x09\0\0\0\0\0\0\xf8\x3f"s, value = "\x15\0\0\x80\x3e"s;
  EventFile file(folder_, 1.5, 300);
  file.scalar("train/loss", 5, 0.25f, 1.5);
  file.flush();
  EXPECT_EQ(read_file(file.path()),
            tf_record(time + "\x10\0"s + "\x1a\x0d" + "brain.Event:2") +  // file_version
                tf_record(time + "\x10\xac\x02" + "\x3a\x02\x08\x01") +   // step 300; session_log: START
                tf_record(time + "\x10\x05" + "\x2a\x13" + "\x0a\x11" + "\x0a\x0a" + "train/loss" + value));
}

TEST_F(EventFileTest, WithoutAPurgeHoldsItsVersionOnly) {
  EventFile file(folder_, 0, -1);
  EXPECT_EQ(read_file(file.path()),
            tf_record("\x09"s + std::string(8, '\0') + "\x10\0"s + "\x1a\x0d" + "brain.Event:2"));
  EXPECT_THROW(EventFile(folder_, 0, -2), InternalError);
}

TEST_F(EventFileTest, IsNamedSoThatTensorBoardFindsIt) {
  const std::string name = EventFile(folder_, 1700000000.7, -1).path().filename().string();
  EXPECT_THAT(name, testing::StartsWith("events.out.tfevents.1700000000."));
  EXPECT_THAT(name, testing::EndsWith("." + std::to_string(::getpid())));
}

TEST_F(EventFileTest, ALaterFileSortsAfterTheEarlierOnesEvenWhenTheClockWentBack) {
  const auto first = EventFile(folder_, 1700000000, -1).path();
  const auto second = EventFile(folder_, 1700000000, 1).path();  // resumed in the same second
  const auto third = EventFile(folder_, 1600000000, 1).path();
  EXPECT_LT(first.string(), second.string());
  EXPECT_LT(second.string(), third.string());
}

TEST_F(EventFileTest, AMissingFolderIsAFileError) {
  EXPECT_THAT([&] { EventFile(folder_ / "missing", 0, -1); },
              testing::ThrowsMessage<FileError>(testing::HasSubstr("missing")));
}

TEST_F(EventFileTest, LargeStepsAndManyPointsAreWhole) {
  EventFile file(folder_, 0, -1);
  const size_t before = read_file(file.path()).size();
  for (int i = 0; i < 10'000; ++i) file.scalar("t", int64_t{1} << 40, 0, 0);  // more than is gathered before a write
  file.flush();
  // time 9, key and step 1 + 6, summary 2 + 2 + 3 + 5, frame 16
  EXPECT_EQ(read_file(file.path()).size() - before, 10'000u * (9 + 7 + 12 + 16));
}

TEST(AppendFile, AFullDiskIsAFileErrorWithAdvice) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  AppendFile file("/dev/full");
  file.append("text");
  EXPECT_THAT([&] { file.flush(); }, testing::ThrowsMessage<FileError>(testing::HasSubstr("free some space")));
  EXPECT_NO_THROW(file.flush());  // what failed is not tried again
}

}  // namespace
}  // namespace paceline
