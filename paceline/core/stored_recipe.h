// The recipe that a run has left in its folder and its checkpoints (recipe.toml), as print_recipe() wrote it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "paceline/core/recipe.h"

namespace paceline {

// Unlike read_recipe(), accepts keys without effect: every key is there, and a run that an earlier version wrote may
// hold one that is refused today.
Recipe read_stored_recipe(const std::filesystem::path& file);
Recipe parse_stored_recipe(std::string_view toml, const std::string& file_name);  // the same, of its text

}  // namespace paceline
