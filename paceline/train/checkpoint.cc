#include "paceline/train/checkpoint.h"

#include <algorithm>
#include <sstream>

#include "paceline/core/file.h"
#include "paceline/core/sha256.h"
#include "paceline/models/safetensors.h"
#include "paceline/models/state.h"
#include "paceline/train/run_state_text.h"

namespace paceline {
namespace {

constexpr const char* kWeights = "weights.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr const char* kRanks = "ranks.safetensors";
constexpr const char* kUnderWay = "under_way.safetensors";
constexpr const char* kSums = "SHA256SUMS";

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kWritingPrefix = ".writing-";    // never finished
constexpr std::string_view kRemovingPrefix = ".removing-";  // no longer wanted
constexpr std::string_view kDivergedPrefix = "diverged-";

std::string folder_name(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string digits = name.substr(kStepPrefix.size());
  if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoll(digits);
}

std::string sha256_of(const std::filesystem::path& file) {
  const std::string contents = read_file(file);
  Sha256 hash;
  hash.update(contents.data(), contents.size());
  return hash.hex();
}

// "rank.3.NAME"
NamedTensors with_rank_names(const std::vector<NamedTensors>& ranks) {
  NamedTensors all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    all.emplace(fmt::format("rank.{}", rank),
                torch::tensor(static_cast<int64_t>(rank)));  // also of one that has nothing
    for (const auto& [name, tensor] : ranks[rank]) all.emplace(fmt::format("rank.{}.{}", rank, name), tensor);
  }
  return all;
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  DurableFile file(path);
  file.write(text);
  file.finish();
}

}  // namespace

CheckpointStore::CheckpointStore(std::filesystem::path folder, int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {}

CheckpointRef CheckpointStore::write(const Model& model, const Optimizer& optimizer, const RunState& state,
                                     const std::vector<NamedTensors>& ranks, const NamedTensors& under_way) {
  const CheckpointRef checkpoint = {state.step, folder_ / folder_name(state.step)};
  if (std::filesystem::exists(checkpoint.folder)) {
    if (!damage_of(checkpoint)) return checkpoint;
    std::filesystem::remove_all(checkpoint.folder);
  }

  make_directories(folder_);
  remove_old();
  const std::filesystem::path writing = folder_ / (std::string(kWritingPrefix) + folder_name(state.step));
  try {
    make_directories(writing);
    write_safetensors(writing / kWeights, state_of(model));
    write_safetensors(writing / kOptimizer, optimizer.state());
    write_text(writing / kState, nlohmann::json(state).dump(2) + "\n");
    std::vector<const char*> files = {kWeights, kOptimizer, kState};
    if (ranks.size() > 1) {
      write_safetensors(writing / kRanks, with_rank_names(ranks));
      files.push_back(kRanks);
    }
    if (!under_way.empty()) {
      write_safetensors(writing / kUnderWay, under_way);
      files.push_back(kUnderWay);
    }
    std::string sums;
    for (const char* file : files) sums += fmt::format("{}  {}\n", sha256_of(writing / file), file);
    write_text(writing / kSums, sums);
    sync_directory(writing);
    rename_path(writing, checkpoint.folder);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to tell; leftovers are removed by the next write
    std::filesystem::remove_all(writing, ignored);
    throw;
  }
  return checkpoint;
}

void CheckpointStore::trust_newest() const {
  remove_old();
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, absent))
    if (entry.path().filename().string().starts_with(kDivergedPrefix)) std::filesystem::remove_all(entry.path());
}

std::optional<CheckpointRef> CheckpointStore::set_newest_aside() const {
  std::vector<CheckpointRef> found = all();
  if (found.empty()) return std::nullopt;
  if (found.size() > 1) {
    const std::filesystem::path aside = folder_ / (std::string(kDivergedPrefix) + folder_name(found.back().step));
    std::filesystem::remove_all(aside);
    rename_path(found.back().folder, aside);
    found.pop_back();
  }
  return found.back();
}

std::vector<CheckpointRef> CheckpointStore::all() const {
  std::vector<CheckpointRef> found;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, absent)) {
    if (const auto step = step_of(entry.path().filename().string())) found.push_back({*step, entry.path()});
  }
  std::ranges::sort(found, {}, &CheckpointRef::step);
  return found;
}

CheckpointStore::Search CheckpointStore::find_newest_intact() const {
  Search search;
  std::vector<CheckpointRef> candidates = all();
  for (; !candidates.empty(); candidates.pop_back()) {
    const auto damage = damage_of(candidates.back());
    if (!damage) {
      search.newest = candidates.back();
      break;
    }
    search.skipped.push_back(fmt::format("{}: {}", candidates.back().folder.string(), *damage));
  }
  return search;
}

void CheckpointStore::remove_newer_than(const CheckpointRef& resumed) const {
  std::vector<CheckpointRef> found = all();
  std::erase_if(found, [&](const CheckpointRef& checkpoint) { return checkpoint.step <= resumed.step; });
  remove(found);
}

void CheckpointStore::remove_old() const {
  std::vector<CheckpointRef> found = all();
  found.resize(found.size() - std::min(found.size(), static_cast<size_t>(keep_)));
  remove(found);
}

// Renamed first: a removal that is cut short must not look like a damaged checkpoint. Takes earlier leftovers along.
void CheckpointStore::remove(const std::vector<CheckpointRef>& unwanted) const {
  for (const CheckpointRef& checkpoint : unwanted) {
    rename_path(checkpoint.folder, folder_ / (std::string(kRemovingPrefix) + folder_name(checkpoint.step)));
  }
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, absent)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kWritingPrefix) || name.starts_with(kRemovingPrefix))
      std::filesystem::remove_all(entry.path());
  }
}

std::optional<std::string> damage_of(const CheckpointRef& checkpoint) {
  const std::filesystem::path sums_file = checkpoint.folder / kSums;
  if (!std::filesystem::exists(sums_file)) return fmt::format("{} is missing", kSums);
  std::istringstream sums(read_file(sums_file));
  std::vector<std::string> covered;
  for (std::string expected, name; sums >> expected >> name;) {
    const std::filesystem::path file = checkpoint.folder / name;
    if (!std::filesystem::exists(file)) return fmt::format("{} is missing", name);
    if (sha256_of(file) != expected) return fmt::format("{} does not have its checksum", name);
    covered.push_back(name);
  }
  for (const char* file : {kWeights, kOptimizer, kState}) {
    if (std::ranges::find(covered, file) == covered.end()) return fmt::format("{} has no line for {}", kSums, file);
  }
  return std::nullopt;
}

RunState load_checkpoint(const CheckpointRef& checkpoint, Model& model, Optimizer& optimizer) {
  load_weights(checkpoint, model);
  const std::filesystem::path optimizer_file = checkpoint.folder / kOptimizer;
  optimizer.load_state(read_safetensors(optimizer_file).tensors, optimizer_file.string());
  const std::filesystem::path state_file = checkpoint.folder / kState;
  return parse_run_state(read_file(state_file), state_file.string());
}

std::vector<NamedTensors> load_rank_tensors(const CheckpointRef& checkpoint) {
  const std::filesystem::path file = checkpoint.folder / kRanks;
  if (!std::filesystem::exists(file)) return {};
  const NamedTensors all = read_safetensors(file).tensors;
  std::vector<NamedTensors> ranks;
  while (all.contains(fmt::format("rank.{}", ranks.size()))) {
    const std::string prefix = fmt::format("rank.{}.", ranks.size());
    NamedTensors& own = ranks.emplace_back();
    for (auto found = all.lower_bound(prefix); found != all.end() && found->first.starts_with(prefix); ++found)
      own.emplace(found->first.substr(prefix.size()), found->second);
  }
  return ranks;
}

SumsUnderWay load_sums_under_way(const CheckpointRef& checkpoint) {
  const std::filesystem::path file = checkpoint.folder / kUnderWay;
  SumsUnderWay sums;
  if (!std::filesystem::exists(file)) return sums;
  sums.tensors = read_safetensors(file).tensors;
  while (sums.tensors.contains(fmt::format("stale.{}", sums.steps + 1))) ++sums.steps;
  return sums;
}

void load_weights(const CheckpointRef& checkpoint, Model& model) {
  const std::filesystem::path file = checkpoint.folder / kWeights;
  load_state(model, read_safetensors(file).tensors, file.string());
}

}  // namespace paceline
