// Checkpoints: everything a run needs to go on bit for bit.
//
// One folder each, checkpoints/step-00000050/: weights.safetensors, optimizer.safetensors, state.json, recipe.toml, of
// several ranks also plan.json and ranks.safetensors (what differs between them), with gradients that are applied late
// under_way.safetensors, and SHA256SUMS over them (`sha256sum -c` reads it). A checkpoint is written under another
// name, flushed to the disk and then renamed, so a killed writer or a full disk leaves the older ones as they were and
// no broken new one.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/log.h"
#include "paceline/models/model.h"
#include "paceline/models/safetensors.h"
#include "paceline/optim/optimizer.h"
#include "paceline/train/run_state.h"

namespace paceline {

struct CheckpointRef {
  int64_t step = 0;
  std::filesystem::path folder;
};

// What a run keeps beside its checkpoints, as it was when one was written.
struct RunTexts {
  std::string recipe;  // recipe.toml
  std::string plan;    // plan.json; "" for a single rank
};

struct DamagedCheckpoint {
  CheckpointRef checkpoint;
  std::string damage;

  std::string text() const;  // "run/checkpoints/step-00000050: state.json is missing"
};

class CheckpointStore {
 public:
  // Keeps the newest `keep` checkpoints, and until it is trusted the newest one besides: weights may be finite and
  // still lead nowhere, and must not push out those that can be used. What is too old is removed then, and before a new
  // one is written, when space may be short. What cannot be removed is told to `log`, once, and left where it is.
  CheckpointStore(std::filesystem::path folder, int64_t keep, Log* log = nullptr);

  // Throws FileError; the older checkpoints are then untouched. Rewriting a step that is there already does nothing.
  // `ranks`: what each rank has of its own, all with the same names; `under_way`: sums of gradients that no step has
  // applied yet, the same on all ranks. None: there is no such file; likewise with `texts`.
  CheckpointRef write(const Model& model, const Optimizer& optimizer, const RunState& state,
                      const std::vector<NamedTensors>& ranks = {}, const NamedTensors& under_way = {},
                      const RunTexts& texts = {});

  // A step has been made from the newest one, and it went well.
  void trust_newest();

  // The step from the newest one failed: it becomes "diverged-step-...", which nothing resumes from and which goes when
  // a later one is trusted. The only checkpoint there is stays. Returns which one is now the newest.
  std::optional<CheckpointRef> set_newest_aside();
  // For the error of a run that diverged: sets the newest aside where it `is_spoilt`, and names the one to go on from.
  std::string advice_after_divergence(bool is_spoilt);

  std::vector<CheckpointRef> all() const;  // oldest first, intact or not; throws FileError

  struct Search {
    std::optional<CheckpointRef> newest;     // intact: every file is there and has its checksum
    std::vector<DamagedCheckpoint> damaged;  // newer ones, the newest first
  };
  // Throws FileError where a file is there and cannot be read: the disk or the network may come back, and a run that
  // went on from an older checkpoint would repeat hours for nothing.
  Search find_newest_intact() const;

  // Before a run goes on without them: renames damaged checkpoints to "damaged-step-...", and tells the log. Nothing
  // resumes from those, counts them in `keep` or removes them; most of their files may be whole. Under their own names
  // they would count as the newest, and push out every new one. Throws FileError.
  void set_aside(const std::vector<DamagedCheckpoint>& damaged);

 private:
  void remove(const std::vector<CheckpointRef>& unwanted);
  void remove_old();
  void remove_leftovers(std::string_view prefix);
  void warn_once(const std::string& what);

  std::filesystem::path folder_;
  int64_t keep_;
  Log* log_;
  std::optional<int64_t> written_;  // the step of the last one from here
  std::set<std::string> warned_;
};

// Why a checkpoint cannot be used, or nothing. Throws FileError where a file is there and cannot be read.
std::optional<std::string> damage_of(const CheckpointRef& checkpoint);

// Loads into the live tensors. Throws DataError when the checkpoint belongs to another model or optimizer.
RunState load_checkpoint(const CheckpointRef& checkpoint, Model& model, Optimizer& optimizer);
// What each rank had of its own, in rank order; nothing of a single rank's.
std::vector<NamedTensors> load_rank_tensors(const CheckpointRef& checkpoint);
// The sums that were under way (StaleSum::state()), and of how many steps; nothing where there were none.
struct SumsUnderWay {
  NamedTensors tensors;
  uint64_t steps = 0;
};
SumsUnderWay load_sums_under_way(const CheckpointRef& checkpoint);
void load_weights(const CheckpointRef& checkpoint, Model& model);
RunState load_run_state(const CheckpointRef& checkpoint);  // throws DataError where it cannot be of any run
RunTexts texts_of(const CheckpointRef& checkpoint);        // "" for what it does not hold
bool has_intact_recipe(const CheckpointRef& checkpoint);

}  // namespace paceline
