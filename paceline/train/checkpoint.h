// Checkpoints: everything a run needs to go on bit for bit.
//
// One folder each, checkpoints/step-00000050/: weights.safetensors, optimizer.safetensors, state.json, of several ranks
// also ranks.safetensors (what differs between them), with gradients that are applied late under_way.safetensors, and
// SHA256SUMS over them (`sha256sum -c` reads it). A checkpoint is written under another name, flushed to the disk and
// then renamed, so a killed writer or a full disk leaves the older ones as they were and no broken new one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "paceline/models/model.h"
#include "paceline/models/safetensors.h"
#include "paceline/optim/optimizer.h"
#include "paceline/train/run_state.h"

namespace paceline {

struct CheckpointRef {
  int64_t step = 0;
  std::filesystem::path folder;
};

class CheckpointStore {
 public:
  // Keeps the newest `keep` checkpoints, and until it is trusted the newest one besides: weights may be finite and
  // still lead nowhere, and must not push out those that can be used. What is too old is removed then, and before a new
  // one is written, when space may be short.
  CheckpointStore(std::filesystem::path folder, int64_t keep);

  // Throws FileError; the older checkpoints are then untouched. Rewriting a step that is there already does nothing.
  // `ranks`: what each rank has of its own, all with the same names; `under_way`: sums of gradients that no step has
  // applied yet, the same on all ranks. None: there is no such file.
  CheckpointRef write(const Model& model, const Optimizer& optimizer, const RunState& state,
                      const std::vector<NamedTensors>& ranks = {}, const NamedTensors& under_way = {});

  // A step has been made from the newest one, and it went well.
  void trust_newest() const;

  // The step from the newest one failed: it becomes "diverged-step-...", which nothing resumes from and which goes when
  // a later one is trusted. The only checkpoint there is stays. Returns which one is now the newest.
  std::optional<CheckpointRef> set_newest_aside() const;

  std::vector<CheckpointRef> all() const;  // oldest first, intact or not

  struct Search {
    std::optional<CheckpointRef> newest;  // intact: every file is there and has its checksum
    std::vector<std::string> skipped;     // newer ones, each with the reason
  };
  Search find_newest_intact() const;

  // Removes what is newer than the one that a run goes on from: damaged, or it would not go on from there. Left in
  // place it would be counted among the newest, and push out the intact ones.
  void remove_newer_than(const CheckpointRef& resumed) const;

 private:
  void remove(const std::vector<CheckpointRef>& unwanted) const;
  void remove_old() const;

  std::filesystem::path folder_;
  int64_t keep_;
};

// Why a checkpoint cannot be used, or nothing.
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

}  // namespace paceline
