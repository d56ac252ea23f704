#include "paceline/comm/flight_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using State = FlightRecord::State;

FlightLog example() {
  return {.rank = 3,
          .size = 4,
          .generation = 2,
          .engine = "shm+gloo",
          .host = "node1",
          .failure = "rank 2 \"died\"\n",
          .groups = {"world", "world/0:1"},
          .records = {{0, State::done, {Verb::all_reduce, DType::bf16, ReduceOp::max, -1, 1000, 12}, 1000, 2000},
                      {1, State::failed, {Verb::broadcast, DType::u8, ReduceOp::sum, 3, 4, 1}, 3000, 4000},
                      {0, State::under_way, {.verb = Verb::barrier, .sequence = 13}, 5000, 0}}};
}

class FlightLogTest : public testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }

  std::string error() const {
    try {
      read_flight_log(file_);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }

  TestFolder folder_;
  std::filesystem::path file_ = folder_.path() / flight_log_name(3);
};

TEST_F(FlightLogTest, ComesBackAsItWasWritten) {
  EXPECT_EQ(file_.filename(), "flight-rank-3.json");
  write_flight_log(file_, example());
  EXPECT_EQ(read_flight_log(file_), example());
}

TEST_F(FlightLogTest, ComesBackWithoutRecordsAndGroups) {
  write_flight_log(file_, {.rank = 0, .size = 1});
  EXPECT_EQ(read_flight_log(file_), (FlightLog{.rank = 0, .size = 1}));
}

TEST_F(FlightLogTest, IsJsonForEverybody) {
  write_flight_log(file_, example());
  const auto json = nlohmann::json::parse(read_file(file_));
  EXPECT_EQ(json["format"], "paceline flight record");
  EXPECT_EQ(json["records"][0]["verb"], "all_reduce");
  EXPECT_EQ(json["records"][0]["bytes"], 2000);
  EXPECT_EQ(json["records"][2]["state"], "under way");
}

TEST_F(FlightLogTest, IsWrittenAlsoWithBytesThatAreNoText) {
  FlightLog log = example();
  log.failure = "cannot open \xff\xfe";
  write_flight_log(file_, log);
  EXPECT_THAT(read_flight_log(file_).failure, HasSubstr("cannot open "));
}

TEST_F(FlightLogTest, CutOffAnywhereIsAnErrorThatNamesTheFile) {
  FlightLog log = example();
  log.records.resize(1);
  write_flight_log(file_, log);
  const std::string whole = read_file(file_);
  for (size_t length = 0; length < whole.size() - 1; ++length) {  // the last byte is a newline
    write(whole.substr(0, length));
    ASSERT_THAT(error(), HasSubstr("flight-rank-3.json is not a flight record, or damaged: ")) << length;
  }
}

TEST_F(FlightLogTest, TellsWhatIsWrong) {
  write_flight_log(file_, example());
  const std::string whole = read_file(file_);
  const std::tuple<std::string, std::string, std::string> damages[] = {
      {"paceline flight record", "diary", "'format' is not 'paceline flight record'"},
      {"\"version\": 1", "\"version\": 2", "'version' is 2, not a number from 1 to 1"},
      {"\"rank\": 3", "\"rank\": 4", "'rank' is 4, not a number from 0 to 3"},
      {"\"rank\": 3", "\"rank\": -1", "'rank' is -1, not a number from 0 to 3"},
      {"\"size\": 4", "\"size\": 1e3", "'size' is 1000.0, not a number from 1 to 1048576"},
      {"\"size\": 4", "\"size\": 0", "'size' is 0, not a number from 1 to 1048576"},
      {"\"generation\": 2", "\"generation\": \"2\"", "'generation' is \"2\", not a number from 0 to "},
      {"\"engine\": \"shm+gloo\"", "\"engine\": 5", "'engine' is not a text"},
      {"\"host\"", "\"guest\"", "'host' is missing"},
      {"\"groups\": [\"world\",\"world/0:1\"]", "\"groups\": {}", "'groups' is not a list"},
      {"\"groups\": [\"world\",\"world/0:1\"]", "\"groups\": [1]", "the name of a group is not a text"},
      {"\"groups\": [\"world\",\"world/0:1\"]", "\"groups\": [\"world\"]", "there is no group 1"},
      {"\"all_reduce\"", "\"juggle\"", "'verb' is 'juggle', which this version does not know"},
      {"\"state\":\"under way\"", "\"state\":null", "'state' is not a text"},
      {"\"begin_ns\":1000", "\"begin_ns\":-1", "'begin_ns' is -1, not a number from 0 to "},
      {"\"begin_ns\":1000", "\"begin_ns\":9223372036854775807", "'begin_ns' is 9223372036854775807, not a number"},
  };
  for (const auto& [from, to, message] : damages) {
    const size_t at = whole.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::string damaged = whole;
    write(damaged.replace(at, from.size(), to));
    EXPECT_THAT(error(), HasSubstr(message));
  }
  for (const char* foreign : {"", "[]", "null", "7", "PNG", "{\"records\": [3]}"}) {
    write(foreign);
    EXPECT_THAT(error(), HasSubstr("is not a flight record")) << foreign;
  }
}

TEST_F(FlightLogTest, MissingIsAFileError) { EXPECT_THROW(read_flight_log(file_), FileError); }

TEST_F(FlightLogTest, IsFoundByItsFolder) {
  EXPECT_THROW(find_flight_logs(folder_.path()), FileError);
  write("");
  replace_file(folder_.path() / flight_log_name(0), "");
  replace_file(folder_.path() / "log.txt", "");
  EXPECT_EQ(find_flight_logs(folder_.path()),
            (std::vector<std::filesystem::path>{folder_.path() / "flight-rank-0.json", file_}));
  EXPECT_EQ(find_flight_logs("some.json"), std::vector<std::filesystem::path>{"some.json"});
}

}  // namespace
}  // namespace paceline
