#include "paceline/train/checkpoint.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "paceline/core/error.h"
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
constexpr const char* kRecipe = "recipe.toml";
constexpr const char* kPlan = "plan.json";
constexpr const char* kSums = "SHA256SUMS";

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kWritingPrefix = ".writing-";    // never finished
constexpr std::string_view kRemovingPrefix = ".removing-";  // no longer wanted
constexpr std::string_view kDivergedPrefix = "diverged-";
constexpr std::string_view kDamagedPrefix = "damaged-";

std::string folder_name(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string digits = name.substr(kStepPrefix.size());
  if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoll(digits);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found) return false;
  if (failure) throw FileError(fmt::format("cannot read {}: {}", path.string(), failure.message()));
  return true;
}

// `path`, or where that is taken "path-2", "path-3", ...
std::filesystem::path free_name(const std::filesystem::path& path) {
  std::filesystem::path name = path;
  for (int number = 2; is_there(name); ++number) name = fmt::format("{}-{}", path.string(), number);
  return name;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure))
    entries.push_back(entry->path());
  if (failure && failure != std::errc::no_such_file_or_directory)
    throw FileError(fmt::format("cannot read {}: {}", folder.string(), failure.message()));
  return entries;
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

// By the name of the file.
std::map<std::string, std::string> sums_of(const CheckpointRef& checkpoint) {
  std::istringstream lines(read_file(checkpoint.folder / kSums));
  std::map<std::string, std::string> sums;
  for (std::string sum, name; lines >> sum >> name;) sums.emplace(name, sum);
  return sums;
}

// The files of a checkpoint in the making, each with its checksum.
class CheckpointFiles {
 public:
  explicit CheckpointFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void add(const char* name, const NamedTensors& tensors) {
    Sha256 hash;
    write_safetensors(folder_ / name, tensors, {}, &hash);
    sums_ += fmt::format("{}  {}\n", hash.hex(), name);
  }
  void add(const char* name, std::string_view text) {
    Sha256 hash;
    write(name, text, &hash);
    sums_ += fmt::format("{}  {}\n", hash.hex(), name);
  }
  void finish() {
    write(kSums, sums_, nullptr);
    sync_directory(folder_);
  }

 private:
  void write(const char* name, std::string_view text, Sha256* hash) const {
    DurableFile file(folder_ / name, hash);
    file.write(text);
    file.finish();
  }

  const std::filesystem::path folder_;
  std::string sums_;
};

// For a checkpoint that is about to be written anew: one that cannot be read is as good as damaged.
std::optional<std::string> damage_or_failure(const CheckpointRef& checkpoint) {
  try {
    return damage_of(checkpoint);
  } catch (const FileError& failure) {
    return failure.what();
  }
}

}  // namespace

std::string DamagedCheckpoint::text() const { return fmt::format("{}: {}", checkpoint.folder.string(), damage); }

CheckpointStore::CheckpointStore(std::filesystem::path folder, int64_t keep, Log* log)
    : folder_(std::move(folder)), keep_(keep), log_(log) {}

CheckpointRef CheckpointStore::write(const Model& model, const Optimizer& optimizer, const RunState& state,
                                     const std::vector<NamedTensors>& ranks, const NamedTensors& under_way,
                                     const RunTexts& texts) {
  const CheckpointRef checkpoint = {state.step, folder_ / folder_name(state.step)};
  if (is_there(checkpoint.folder)) {
    const auto damage = damage_or_failure(checkpoint);
    if (!damage) {
      written_ = state.step;
      return checkpoint;
    }
    set_aside({{checkpoint, *damage}});
  }

  make_directories(folder_);
  remove_old();
  const std::filesystem::path writing = free_name(folder_ / (std::string(kWritingPrefix) + folder_name(state.step)));
  try {
    make_directories(writing);
    CheckpointFiles files(writing);
    files.add(kWeights, state_of(model));
    files.add(kOptimizer, optimizer.state());
    files.add(kState, nlohmann::json(state).dump(2) + "\n");
    if (!texts.recipe.empty()) files.add(kRecipe, texts.recipe);
    if (!texts.plan.empty()) files.add(kPlan, texts.plan);
    if (ranks.size() > 1) files.add(kRanks, with_rank_names(ranks));
    if (!under_way.empty()) files.add(kUnderWay, under_way);
    files.finish();
    rename_path(writing, checkpoint.folder);
  } catch (...) {
    remove_path(writing);  // the first error is the one to tell; leftovers are removed by the next write
    throw;
  }
  written_ = state.step;
  return checkpoint;
}

void CheckpointStore::trust_newest() {
  remove_old();
  remove_leftovers(kDivergedPrefix);
}

std::optional<CheckpointRef> CheckpointStore::set_newest_aside() {
  std::vector<CheckpointRef> found = all();
  if (found.empty()) return std::nullopt;
  if (found.size() > 1) {
    const auto aside = folder_ / (std::string(kDivergedPrefix) + folder_name(found.back().step));
    rename_path(found.back().folder, free_name(aside));
    found.pop_back();
  }
  return found.back();
}

std::string CheckpointStore::advice_after_divergence(bool is_spoilt) {
  const std::vector<CheckpointRef> found = all();
  if (found.empty()) return "";
  if (!is_spoilt) return fmt::format("; the last checkpoint is {}", found.back().folder.string());
  const CheckpointRef kept = *set_newest_aside();
  if (kept.step == found.back().step)
    return fmt::format("; the only checkpoint, {}, is the one that it diverged from", kept.folder.string());
  return fmt::format("; the last checkpoint is {}", kept.folder.string());
}

std::vector<CheckpointRef> CheckpointStore::all() const {
  std::vector<CheckpointRef> found;
  for (const std::filesystem::path& entry : entries_of(folder_))
    if (const auto step = step_of(entry.filename().string())) found.push_back({*step, entry});
  std::ranges::sort(found, {}, &CheckpointRef::step);
  return found;
}

CheckpointStore::Search CheckpointStore::find_newest_intact() const {
  Search search;
  std::vector<CheckpointRef> candidates = all();
  for (; !candidates.empty() && !search.newest; candidates.pop_back()) {
    const CheckpointRef& candidate = candidates.back();
    try {
      if (auto damage = damage_of(candidate)) {
        search.damaged.push_back({candidate, std::move(*damage)});
      } else {
        search.newest = candidate;
      }
    } catch (const FileError& failure) {
      throw FileError(fmt::format("{}; try again, or move {} out of {} to use an older checkpoint", failure.what(),
                                  candidate.folder.filename().string(), folder_.string()));
    }
  }
  return search;
}

void CheckpointStore::set_aside(const std::vector<DamagedCheckpoint>& damaged) {
  for (const DamagedCheckpoint& each : damaged) {
    const auto aside = free_name(folder_ / (std::string(kDamagedPrefix) + folder_name(each.checkpoint.step)));
    rename_path(each.checkpoint.folder, aside);
    if (log_ != nullptr)
      log_->warning("skipped a damaged checkpoint: {}; it is kept as {}", each.text(), aside.filename().string());
  }
}

// What was written last stays, whatever its step: where it is not the newest, the run is not what the others are of.
void CheckpointStore::remove_old() {
  std::vector<CheckpointRef> found = all();
  found.resize(found.size() - std::min(found.size(), static_cast<size_t>(keep_)));
  std::erase_if(found, [&](const CheckpointRef& checkpoint) { return checkpoint.step == written_; });
  remove(found);
}

// Renamed first: a removal that is cut short must not look like a damaged checkpoint. Takes earlier leftovers along.
void CheckpointStore::remove(const std::vector<CheckpointRef>& unwanted) {
  for (const CheckpointRef& checkpoint : unwanted) {
    try {
      const auto removing = folder_ / (std::string(kRemovingPrefix) + folder_name(checkpoint.step));
      rename_path(checkpoint.folder, free_name(removing));
    } catch (const FileError& failure) {
      warn_once(fmt::format("an old checkpoint stays: {}", failure.what()));
    }
  }
  remove_leftovers(kWritingPrefix);
  remove_leftovers(kRemovingPrefix);
}

void CheckpointStore::remove_leftovers(std::string_view prefix) {
  for (const std::filesystem::path& entry : entries_of(folder_)) {
    if (!entry.filename().string().starts_with(prefix)) continue;
    if (const std::string why_not = remove_path(entry); !why_not.empty()) warn_once(why_not);
  }
}

void CheckpointStore::warn_once(const std::string& what) {
  if (warned_.insert(what).second && log_ != nullptr) log_->warning("{}", what);
}

std::optional<std::string> damage_of(const CheckpointRef& checkpoint) {
  if (!is_there(checkpoint.folder / kSums)) return fmt::format("{} is missing", kSums);
  const std::map<std::string, std::string> sums = sums_of(checkpoint);
  for (const auto& [name, expected] : sums) {
    const std::filesystem::path file = checkpoint.folder / name;
    if (!is_there(file)) return fmt::format("{} is missing", name);
    if (sha256_of_file(file) != expected) return fmt::format("{} does not have its checksum", name);
  }
  for (const char* file : {kWeights, kOptimizer, kState})
    if (!sums.contains(file)) return fmt::format("{} has no line for {}", kSums, file);
  for (const char* file : {kRecipe, kPlan, kRanks, kUnderWay})  // not of every run
    if (!sums.contains(file) && is_there(checkpoint.folder / file))
      return fmt::format("{} has no line for {}", kSums, file);
  return std::nullopt;
}

bool has_intact_recipe(const CheckpointRef& checkpoint) {
  const std::filesystem::path file = checkpoint.folder / kRecipe;
  if (!is_there(checkpoint.folder / kSums) || !is_there(file)) return false;
  const std::map<std::string, std::string> sums = sums_of(checkpoint);
  const auto expected = sums.find(kRecipe);
  return expected != sums.end() && sha256_of_file(file) == expected->second;
}

RunTexts texts_of(const CheckpointRef& checkpoint) {
  const auto text = [&](const char* name) {
    const std::filesystem::path file = checkpoint.folder / name;
    return is_there(file) ? read_file(file) : "";
  };
  return {.recipe = text(kRecipe), .plan = text(kPlan)};
}

RunState load_checkpoint(const CheckpointRef& checkpoint, Model& model, Optimizer& optimizer) {
  load_weights(checkpoint, model);
  const std::filesystem::path optimizer_file = checkpoint.folder / kOptimizer;
  optimizer.load_state(read_safetensors(optimizer_file).tensors, optimizer_file.string());
  return load_run_state(checkpoint);
}

RunState load_run_state(const CheckpointRef& checkpoint) {
  const std::string file = (checkpoint.folder / kState).string();
  const RunState state = parse_run_state(read_file(file), file);
  if (const auto step = step_of(checkpoint.folder.filename().string()); step && state.step != *step)
    throw DataError(fmt::format("{}: step: expected that of the folder, found {}", file, state.step));
  return state;
}

std::vector<NamedTensors> load_rank_tensors(const CheckpointRef& checkpoint) {
  const std::filesystem::path file = checkpoint.folder / kRanks;
  if (!is_there(file)) return {};
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
  if (!is_there(file)) return sums;
  sums.tensors = read_safetensors(file).tensors;
  while (sums.tensors.contains(fmt::format("stale.{}", sums.steps + 1))) ++sums.steps;
  return sums;
}

void load_weights(const CheckpointRef& checkpoint, Model& model) {
  const std::filesystem::path file = checkpoint.folder / kWeights;
  load_state(model, read_safetensors(file).tensors, file.string());
}

}  // namespace paceline
