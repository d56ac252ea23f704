#include "paceline/train/earlier_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ranges>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/stored_recipe.h"

namespace paceline {

EarlierRun find_earlier_run(const RunFolder& folder) {
  CheckpointStore::Search search = CheckpointStore(folder.checkpoints(), /*keep=*/1).find_newest_intact();
  EarlierRun earlier = {.from = search.newest, .damaged = std::move(search.damaged)};
  if (!earlier.from) return earlier;
  earlier.recipe = recipe_of(*earlier.from, folder);
  const RunTexts texts = texts_of(*earlier.from);
  const bool holds_texts = !texts.recipe.empty();  // earlier versions kept them in the run's folder alone
  earlier.plan = holds_texts || !std::filesystem::exists(folder.plan()) ? texts.plan : read_file(folder.plan());
  return earlier;
}

Recipe recipe_of(const CheckpointRef& checkpoint, const RunFolder& folder) {
  const std::string text = texts_of(checkpoint).recipe;
  if (text.empty()) return read_stored_recipe(folder.recipe());
  return parse_stored_recipe(text, (checkpoint.folder / "recipe.toml").string());
}

void require_recipe_as_written(const RunFolder& folder) {
  const std::vector<CheckpointRef> checkpoints = CheckpointStore(folder.checkpoints(), /*keep=*/1).all();
  for (const CheckpointRef& checkpoint : checkpoints | std::views::reverse) {
    if (!has_intact_recipe(checkpoint)) continue;
    const auto changes = recipe_changes(recipe_of(checkpoint, folder), read_stored_recipe(folder.recipe()));
    if (changes.empty()) return;
    throw RecipeError(
        fmt::format("{0} is not what {1} was written with ({2}); to go on as the run was, use "
                    "{1}/recipe.toml; to change it, use --set or a copy elsewhere",
                    folder.recipe().string(), checkpoint.folder.string(), fmt::join(changes, ", ")));
  }
}

EarlierRun find_earlier_run(const RunFolder& folder, bool resume, const Group& group) {
  if (group.rank() != 0 || folder.root.empty()) return {};
  if (resume) {
    const AtWork at_work(group.monitor(), Chore::checkpoint);
    return find_earlier_run(folder);
  }
  if (!CheckpointStore(folder.checkpoints(), /*keep=*/1).all().empty())
    throw UsageError(fmt::format("{} holds checkpoints of a run already; resume that, or choose another folder",
                                 folder.root.string()));
  return {};
}

}  // namespace paceline
