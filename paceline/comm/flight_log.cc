#include "paceline/comm/flight_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "paceline flight record";
constexpr int kVersion = 1;
constexpr int kMostRanks = 1 << 20;
constexpr int64_t kLatestNs = std::numeric_limits<int64_t>::max() / 2;  // differences of times do not overflow

std::string_view name_of(FlightRecord::State state) {
  constexpr std::string_view kNames[] = {"under way", "done", "failed"};
  return kNames[static_cast<size_t>(state)];
}

// A file name or an error may hold bytes that are no UTF-8.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json to_json(const FlightRecord& record) {
  const Operation& operation = record.operation;
  return {{"group", record.group},
          {"sequence", operation.sequence},
          {"verb", name_of(operation.verb)},
          {"dtype", name_of(operation.dtype)},
          {"reduce", name_of(operation.reduce)},
          {"peer", operation.peer},
          {"count", operation.count},
          {"bytes", operation.bytes()},
          {"state", name_of(record.state)},
          {"begin_ns", record.begin_ns},
          {"end_ns", record.end_ns}};
}

struct Damage {
  std::string what;
};

const Json& field(const Json& object, const char* key) {
  if (!object.is_object()) throw Damage{"an object is missing"};
  const auto found = object.find(key);
  if (found == object.end()) throw Damage{fmt::format("'{}' is missing", key)};
  return *found;
}

std::string text_field(const Json& object, const char* key) {
  const Json& value = field(object, key);
  if (!value.is_string()) throw Damage{fmt::format("'{}' is not a text", key)};
  return value.get<std::string>();
}

const Json& list_field(const Json& object, const char* key) {
  const Json& value = field(object, key);
  if (!value.is_array()) throw Damage{fmt::format("'{}' is not a list", key)};
  return value;
}

bool within(const Json& value, auto least, auto most) {
  const auto fits = [&](auto number) {
    return std::cmp_less_equal(least, number) && std::cmp_less_equal(number, most);
  };
  if (value.is_number_unsigned()) return fits(value.get<uint64_t>());
  return value.is_number_integer() && fits(value.get<int64_t>());
}

template <class T>
T integer_field(const Json& object, const char* key, T least, T most) {
  const Json& value = field(object, key);
  if (!within(value, least, most))
    throw Damage{fmt::format("'{}' is {}, not a number from {} to {}", key, dump(value).substr(0, 40), least, most)};
  return value.get<T>();
}

template <class T>
T integer_field(const Json& object, const char* key) {
  return integer_field<T>(object, key, 0, std::numeric_limits<T>::max());
}

// `last` is the enum's last value.
template <class Enum>
Enum named_field(const Json& object, const char* key, Enum last) {
  const std::string name = text_field(object, key);
  for (size_t value = 0; value <= static_cast<size_t>(last); ++value)
    if (name_of(static_cast<Enum>(value)) == name) return static_cast<Enum>(value);
  throw Damage{fmt::format("'{}' is '{}', which this version does not know", key, name.substr(0, 40))};
}

FlightRecord record_from(const Json& json, size_t groups) {
  FlightRecord record;
  record.group = integer_field<uint32_t>(json, "group");
  if (record.group >= groups) throw Damage{fmt::format("there is no group {}", record.group)};
  record.operation.sequence = integer_field<uint64_t>(json, "sequence");
  record.operation.verb = named_field(json, "verb", Verb::receive);
  record.operation.dtype = named_field(json, "dtype", DType::u8);
  record.operation.reduce = named_field(json, "reduce", ReduceOp::min);
  record.operation.peer = integer_field<int32_t>(json, "peer", -1, kMostRanks);
  record.operation.count = integer_field<uint64_t>(json, "count");
  record.state = named_field(json, "state", FlightRecord::State::failed);
  record.begin_ns = integer_field<int64_t>(json, "begin_ns", 0, kLatestNs);
  record.end_ns = integer_field<int64_t>(json, "end_ns", 0, kLatestNs);
  return record;
}

FlightLog log_from(const Json& json) {
  if (text_field(json, "format") != kFormat) throw Damage{fmt::format("'format' is not '{}'", kFormat)};
  integer_field<int>(json, "version", kVersion, kVersion);
  FlightLog log;
  log.size = integer_field<int>(json, "size", 1, kMostRanks);
  log.rank = integer_field<int>(json, "rank", 0, log.size - 1);
  log.generation = integer_field<uint64_t>(json, "generation");
  log.engine = text_field(json, "engine");
  log.host = text_field(json, "host");
  log.failure = text_field(json, "failure");
  for (const Json& group : list_field(json, "groups")) {
    if (!group.is_string()) throw Damage{"the name of a group is not a text"};
    log.groups.push_back(group.get<std::string>());
  }
  for (const Json& record : list_field(json, "records")) log.records.push_back(record_from(record, log.groups.size()));
  std::ranges::stable_sort(log.records, {}, &FlightRecord::begin_ns);
  return log;
}

}  // namespace

std::filesystem::path flight_log_name(int rank) { return fmt::format("flight-rank-{}.json", rank); }

// JSON for programs, a record a line for people.
void write_flight_log(const std::filesystem::path& file, const FlightLog& log) {
  const Json head = {{"format", kFormat}, {"version", kVersion},          {"rank", log.rank},
                     {"size", log.size},  {"generation", log.generation}, {"engine", log.engine},
                     {"host", log.host},  {"failure", log.failure},       {"groups", log.groups}};
  std::string text = "{";
  for (const auto& [key, value] : head.items()) text += fmt::format("\"{}\": {},\n ", key, dump(value));
  text += "\"records\": [";
  for (size_t index = 0; index < log.records.size(); ++index)
    text += (index == 0 ? "\n  " : ",\n  ") + dump(to_json(log.records[index]));
  replace_file(file, text + "]}\n");
}

std::vector<std::filesystem::path> find_flight_logs(const std::filesystem::path& file_or_folder) {
  if (!std::filesystem::is_directory(file_or_folder)) return {file_or_folder};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(file_or_folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("flight-rank-") && name.ends_with(".json")) files.push_back(entry.path());
  }
  if (files.empty()) throw FileError(fmt::format("there is no flight-rank-*.json in {}", file_or_folder.string()));
  std::ranges::sort(files);
  return files;
}

FlightLog read_flight_log(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  try {
    return log_from(Json::parse(text));
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{} is not a flight record, or damaged: {}", file.string(), error.what()));
  } catch (const Damage& damage) {
    throw DataError(fmt::format("{} is not a flight record, or damaged: {}", file.string(), damage.what));
  }
}

}  // namespace paceline
