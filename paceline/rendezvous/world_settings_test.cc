#include "paceline/rendezvous/world_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

Environment of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

int64_t timeout_of(const std::string& text) { return wait_timeout_ms(0, of({{"PACELINE_TIMEOUT", text}})); }

TEST(WaitTimeout, ComesFromTheProgramThenTheEnvironment) {
  EXPECT_EQ(wait_timeout_ms(0, of({})), kDefaultTimeoutMs);
  EXPECT_EQ(wait_timeout_ms(250, of({{"PACELINE_TIMEOUT", "7"}})), 250);
  EXPECT_EQ(timeout_of("7"), 7000);
  EXPECT_EQ(timeout_of("2.5"), 2500);
  EXPECT_EQ(timeout_of("1e-9"), 1) << "never 0, which would mean no time-out";
}

TEST(WaitTimeout, EndlessOnesDoNotOverflow) {
  for (const char* const text : {"inf", "1e10", "1e300", "1e999", "9223372036854775807"})
    EXPECT_EQ(timeout_of(text), kLongestTimeoutMs) << text;
  EXPECT_EQ(wait_timeout_ms(INT64_MAX, of({})), kLongestTimeoutMs);
}

TEST(WaitTimeout, RefusesWhatIsNoNumberOfSeconds) {
  for (const char* const text : {"", "0", "-1", "-inf", "nan", "5s", "soon", "1e-999"})
    EXPECT_THROW(timeout_of(text), UsageError) << text;
}

TEST(FlightFolder, IsTheUsersChoiceOrOneThatIsPrivate) {
  const TestFolder own;
  const std::string runtime = own.path().string();
  EXPECT_EQ(flight_folder("asked", of({{"PACELINE_FLIGHT_DIR", "set"}}), "j").path, "asked");
  EXPECT_EQ(flight_folder("", of({{"PACELINE_FLIGHT_DIR", "set"}}), "j").path, "set");
  EXPECT_EQ(flight_folder("", of({{"XDG_RUNTIME_DIR", runtime}}), "j").path, own.path() / "paceline-flight-j");
  const auto in_tmp = std::filesystem::temp_directory_path() / "paceline-flight-run";
  EXPECT_EQ(flight_folder("", of({}), "").path, in_tmp);
  EXPECT_EQ(flight_folder("", of({{"XDG_RUNTIME_DIR", "/not/there"}}), "").path, in_tmp);
}

// Its name can be foreseen: whoever makes it first could put a link there in the place of the record.
TEST(FlightFolder, OneThatOthersCouldHaveFilledIsNotUsed) {
  const TestFolder runtime;
  const FlightFolder folder = flight_folder("", of({{"XDG_RUNTIME_DIR", runtime.path().string()}}), "j");
  std::filesystem::create_directory(folder.path);
  std::filesystem::permissions(folder.path, static_cast<std::filesystem::perms>(0777));
  EXPECT_THROW(make_flight_folder(folder), FileError);
  make_flight_folder({folder.path, true});
}

}  // namespace
}  // namespace paceline
