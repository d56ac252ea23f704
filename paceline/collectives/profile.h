// Profile: how long each all-reduce took on these hosts, for the planner. A JSON file per engine and layout
// (docs/formats.md), good for as long as host, engine and version are the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/comm/topology.h"
#include "paceline/core/tensor_view.h"
#include "paceline/rendezvous/identity.h"

namespace paceline {

// What must be the same for measured times to hold.
struct Fingerprint {
  std::string version;  // of Paceline
  std::string engine;
  int ranks = 1;
  std::string layout;              // layout_text()
  std::string grid;                // of the torus: "2x2"
  std::vector<std::string> hosts;  // hardware_text() of each, in the order of their first ranks
  bool operator==(const Fingerprint&) const = default;
};

struct ProfileRow {
  std::string algorithm;
  DType dtype = DType::f32;
  uint64_t bytes = 0;
  double seconds = 0;
  bool operator==(const ProfileRow&) const = default;
};

struct Profile {
  Fingerprint fingerprint;
  std::vector<ProfileRow> rows;
  double disagreement =
      1;  // how many times as long the slower of two measurements of a row took: the median of all rows
  bool operator==(const Profile&) const = default;

  // Something else kept the machine busy meanwhile: what the profile prefers may be chance.
  bool noisy() const { return disagreement > 1.5; }
};

// "4x2": 4 ranks on each of 2 hosts, host after host. Other layouts get a name made of who is where.
std::string layout_text(const Topology& topology);
std::string processor_name();  // of this host: "AMD EPYC"
std::string hardware_text();   // of this host: "node1, AMD EPYC, 2 cores"

std::string print_profile(const Profile& profile);
Profile parse_profile(const std::string& text);  // throws DataError

// The measured time at `bytes`: between two sizes interpolated in the logarithms of both. Beyond the profile's sizes,
// the last one's, scaled as `model` (seconds by bytes) says. A type without rows has those of f32. Nothing for an
// algorithm that was not measured.
std::optional<double> measured_seconds(const Profile& profile, const std::string& algorithm, DType dtype,
                                       uint64_t bytes, const std::function<double(double bytes)>& model);
// Whether that size lies between measured ones.
bool within_measured_sizes(const Profile& profile, DType dtype, uint64_t bytes);

// PACELINE_PROFILE_DIR, else ~/.cache/paceline; nothing without a home.
std::optional<std::filesystem::path> profile_folder(const Environment& environment);
std::string profile_name(const std::string& engine, const std::string& layout);  // "profile-shm-4x1.json"

// The profile in that file if it is there and `fits` says so of its fingerprint. A damaged one is as good as none:
// `warn` is told.
using Warn = std::function<void(const std::string& text)>;
std::optional<Profile> load_profile(const std::filesystem::path& file,
                                    const std::function<bool(const Fingerprint&)>& fits, const Warn& warn);
void store_profile(const std::filesystem::path& file, const Profile& profile);  // throws FileError

}  // namespace paceline
