#include "paceline/launch/launch_protocol.h"

#include <gmock/gmock.h>

#include "paceline/core/version.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string one_line(const std::string& text) {
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  return text.substr(0, text.size() - 1);
}

TEST(LaunchProtocol, CarriesAJob) {
  const JobOrder job = {.command = {"sh", "-c", "echo 'a\nb'"},
                        .folder = "/tmp/with space",
                        .ranks = {{.rank = 3, .environment = {"A=1", "B=\"=\""}}, {.rank = 4}}};
  const AgentOrder order = read_order(one_line(job_line(job)));
  ASSERT_TRUE(order.job);
  EXPECT_EQ(order.job->command, job.command);
  EXPECT_EQ(order.job->folder, job.folder);
  ASSERT_EQ(order.job->ranks.size(), 2);
  EXPECT_EQ(order.job->ranks[0].rank, 3);
  EXPECT_THAT(order.job->ranks[0].environment, ElementsAre("A=1", "B=\"=\""));
}

TEST(LaunchProtocol, CarriesWordsThatAreNotUtf8Unchanged) {
  std::string every_byte;
  for (int byte = 1; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const JobOrder job = {.command = {"cat", "caf\xe9.txt", every_byte, ""},
                        .folder = "/tmp/caf\xe9",
                        .ranks = {{.rank = 0, .environment = {"NAME=caf\xe9", "OTHER=caf\xc3\xa9"}}}};
  const AgentOrder order = read_order(one_line(job_line(job)));
  ASSERT_TRUE(order.job);
  EXPECT_EQ(order.job->command, job.command);
  EXPECT_EQ(order.job->folder, job.folder);
  EXPECT_EQ(order.job->ranks.at(0).environment, job.ranks[0].environment);
}

TEST(LaunchProtocol, CarriesASignal) { EXPECT_EQ(read_order(one_line(signal_line(15))).signal, 15); }

TEST(LaunchProtocol, DoesNotQuoteOrdersThatItCannotRead) {
  try {
    read_order("{\"ranks\": [{\"environment\": [\"PACELINE_SECRET=hush\"}");
    FAIL() << "nothing was thrown";
  } catch (const PeerError& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("hush")));
  }
}

TEST(LaunchProtocol, CarriesReports) {
  const auto hello = read_report(one_line(hello_line()));
  ASSERT_TRUE(hello && hello->kind == AgentReport::Kind::hello);
  EXPECT_EQ(hello->text, kVersion);
  const auto line = read_report(one_line(output_line(2, Stream::errors, "a\"\tb\n")));
  ASSERT_TRUE(line && line->kind == AgentReport::Kind::line);
  EXPECT_EQ(line->rank, 2);
  EXPECT_EQ(line->stream, Stream::errors);
  EXPECT_EQ(line->text, "a\"\tb\n");
  const auto ended = read_report(one_line(ended_line(5, {.signal = 9})));
  ASSERT_TRUE(ended && ended->kind == AgentReport::Kind::ended);
  EXPECT_EQ(ended->rank, 5);
  EXPECT_EQ(ended->ending.text(), "killed by signal 9 (Killed)");
  const auto error = read_report(one_line(error_line(UsageError("no such program"))));
  ASSERT_TRUE(error && error->kind == AgentReport::Kind::error);
  EXPECT_EQ(error->text, "no such program");
  EXPECT_EQ(error->code, ExitCode::usage);
}

TEST(LaunchProtocol, ReplacesBytesThatAreNotUtf8) {
  const auto report = read_report(one_line(output_line(0, Stream::output,
                                                       "a\xff"
                                                       "b\xc3\xa9")));
  ASSERT_TRUE(report);
  EXPECT_EQ(report->text,
            "a\xef\xbf\xbd"
            "b\xc3\xa9");
}

TEST(LaunchProtocol, LeavesWhatAShellSaysAlone) {
  for (const char* line : {"", "Welcome to node b", "{", "17", "[]", "{\"output\": \"x\"}", "{\"line\": 3}"})
    EXPECT_FALSE(read_report(line)) << line;
}

}  // namespace
}  // namespace paceline
