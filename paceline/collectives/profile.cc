#include "paceline/collectives/profile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/sha256.h"

namespace paceline {
namespace {

constexpr const char* kFormat = "paceline profile";
constexpr int kFormatVersion = 1;

DType parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64})
    if (name_of(dtype) == name) return dtype;
  throw DataError(fmt::format("no type is called '{}'", name));
}

ProfileRow parse_row(const nlohmann::json& json) {
  const ProfileRow row = {json.at("algorithm"), parse_dtype(json.at("dtype")), json.at("bytes"), json.at("seconds")};
  if (row.bytes == 0 || !(row.seconds > 0) || !std::isfinite(row.seconds))
    throw DataError(fmt::format("{} bytes in {} seconds", row.bytes, row.seconds));
  return row;
}

// Rows of one algorithm and type, by size.
std::vector<ProfileRow> rows_of(const Profile& profile, const std::string& algorithm, DType dtype) {
  std::vector<ProfileRow> rows;
  for (const ProfileRow& row : profile.rows)
    if (row.dtype == dtype && row.algorithm == algorithm) rows.push_back(row);
  std::ranges::sort(rows, {}, &ProfileRow::bytes);
  return rows;
}

struct Range {
  uint64_t smallest = 0;
  uint64_t largest = 0;
};

std::optional<Range> measured_range(const Profile& profile, DType dtype) {
  std::optional<Range> range;
  for (const ProfileRow& row : profile.rows) {
    if (row.dtype != dtype) continue;
    if (!range) range = {row.bytes, row.bytes};
    range = {std::min(range->smallest, row.bytes), std::max(range->largest, row.bytes)};
  }
  return range;
}

DType measured_type(const Profile& profile, DType dtype) { return measured_range(profile, dtype) ? dtype : DType::f32; }

// REQUIRES: `rows` by size, the first not larger than `bytes`, the last not smaller
double interpolate(const std::vector<ProfileRow>& rows, uint64_t bytes) {
  const auto above = std::ranges::lower_bound(rows, bytes, {}, &ProfileRow::bytes);
  if (above->bytes == bytes) return above->seconds;
  const auto below = std::prev(above);
  const double part = std::log(static_cast<double>(bytes) / static_cast<double>(below->bytes)) /
                      std::log(static_cast<double>(above->bytes) / static_cast<double>(below->bytes));
  return below->seconds * std::pow(above->seconds / below->seconds, part);
}

}  // namespace

std::string layout_text(const Topology& topology) {
  if (topology.ranks_per_host() > 0 && topology.hosts_are_consecutive())
    return fmt::format("{}x{}", topology.ranks_per_host(), topology.hosts());
  std::string who_is_where;
  for (int rank = 0; rank < topology.ranks(); ++rank) who_is_where += fmt::format("{} ", topology.host_of(rank));
  Sha256 hash;
  hash.update(who_is_where.data(), who_is_where.size());
  return fmt::format("{}on{}-{}", topology.ranks(), topology.hosts(), hash.hex().substr(0, 12));
}

std::string processor_name() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(": ") + 2, line.size()));
  return "unknown processor";
}

std::string hardware_text() {
  return fmt::format("{}, {}, {} cores", host_name(), processor_name(), ::sysconf(_SC_NPROCESSORS_ONLN));
}

std::string print_profile(const Profile& profile) {
  const Fingerprint& fingerprint = profile.fingerprint;
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"format_version", kFormatVersion},
                                 {"version", fingerprint.version},
                                 {"engine", fingerprint.engine},
                                 {"ranks", fingerprint.ranks},
                                 {"layout", fingerprint.layout},
                                 {"grid", fingerprint.grid},
                                 {"hosts", fingerprint.hosts},
                                 {"disagreement", profile.disagreement},
                                 {"rows", nlohmann::ordered_json::array()}};
  for (const ProfileRow& row : profile.rows)
    json["rows"].push_back(
        {{"algorithm", row.algorithm}, {"dtype", name_of(row.dtype)}, {"bytes", row.bytes}, {"seconds", row.seconds}});
  return json.dump(1) + "\n";
}

Profile parse_profile(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") != kFormat || json.at("format_version") != kFormatVersion)
      throw DataError("not a profile of this format");
    Profile profile = {
        {json.at("version"), json.at("engine"), json.at("ranks"), json.at("layout"), json.at("grid"), json.at("hosts")},
        {},
        json.value("disagreement", 1.0)};
    for (const nlohmann::json& row : json.at("rows")) profile.rows.push_back(parse_row(row));
    return profile;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(error.what());
  }
}

std::optional<double> measured_seconds(const Profile& profile, const std::string& algorithm, DType dtype,
                                       uint64_t bytes, const std::function<double(double bytes)>& model) {
  dtype = measured_type(profile, dtype);
  const std::optional<Range> range = measured_range(profile, dtype);
  const std::vector<ProfileRow> rows = rows_of(profile, algorithm, dtype);
  if (!range || rows.empty()) return std::nullopt;
  const uint64_t nearest = std::clamp(bytes, range->smallest, range->largest);
  if (nearest < rows.front().bytes || nearest > rows.back().bytes) return std::nullopt;
  const double seconds = interpolate(rows, nearest);
  const double at_nearest = model(static_cast<double>(nearest));
  if (nearest == bytes || !(at_nearest > 0)) return seconds;
  return seconds * model(static_cast<double>(bytes)) / at_nearest;
}

bool within_measured_sizes(const Profile& profile, DType dtype, uint64_t bytes) {
  const std::optional<Range> range = measured_range(profile, measured_type(profile, dtype));
  return range && bytes >= range->smallest && bytes <= range->largest;
}

std::optional<std::filesystem::path> profile_folder(const Environment& environment) {
  if (const auto folder = environment("PACELINE_PROFILE_DIR"); folder && !folder->empty()) return *folder;
  if (const auto home = environment("HOME"); home && !home->empty())
    return std::filesystem::path(*home) / ".cache" / "paceline";
  return std::nullopt;
}

std::string profile_name(const std::string& engine, const std::string& layout) {
  return fmt::format("profile-{}-{}.json", engine, layout);
}

std::optional<Profile> load_profile(const std::filesystem::path& file,
                                    const std::function<bool(const Fingerprint&)>& fits, const Warn& warn) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  try {
    Profile profile = parse_profile(read_file(file));
    if (fits(profile.fingerprint)) return profile;
  } catch (const Error& error) {
    warn(fmt::format("the profile {} cannot be used ({}); 'paceline profile --force' writes a new one", file.string(),
                     error.what()));
  }
  return std::nullopt;
}

void store_profile(const std::filesystem::path& file, const Profile& profile) {
  make_directories(file.parent_path());
  replace_file(file, print_profile(profile));
}

}  // namespace paceline
