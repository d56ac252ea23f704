// EarlierRun: what a run that goes on finds of the part before: the checkpoint to go on from, and the recipe and the
// plan that it was written with. They come out of the checkpoint, under its checksums: recipe.toml and plan.json of the
// run's folder are copies for people, and may be gone or changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/core/recipe.h"
#include "paceline/train/checkpoint.h"
#include "paceline/train/run_folder.h"

namespace paceline {

struct EarlierRun {
  std::optional<CheckpointRef> from;       // the newest intact one; nothing: the run begins anew
  std::vector<DamagedCheckpoint> damaged;  // newer ones
  std::optional<Recipe> recipe;            // of `from`
  std::string plan;                        // of `from`; "" for a single rank
};

// Changes nothing in the folder. Throws FileError where something is there and cannot be read.
EarlierRun find_earlier_run(const RunFolder& folder);

// Of rank 0's folder; nothing on other ranks, or where `folder` is empty. Throws UsageError where a run that does not
// `resume` finds checkpoints: a new run would mix its files with them.
EarlierRun find_earlier_run(const RunFolder& folder, bool resume, const Group& group);

// The recipe that a checkpoint was written with; that of the run's folder for a checkpoint which does not hold it, as
// earlier versions wrote them.
Recipe recipe_of(const CheckpointRef& checkpoint, const RunFolder& folder);

// For a run that goes on with its own recipe.toml for a recipe. Throws RecipeError where that is not the one of the
// newest checkpoint: a letter that changed by accident looks like a wish. A wish is written in a copy, or with --set.
void require_recipe_as_written(const RunFolder& folder);

}  // namespace paceline
