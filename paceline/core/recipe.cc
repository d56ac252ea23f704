// Recipes as files, and how messages about their keys begin.
#include "paceline/core/recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/nearest.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void no_such_file(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code ignored;  // a folder that cannot be listed offers no names
  if (!fs::is_directory(folder, ignored)) {
    throw RecipeError(fmt::format("{}: there is no such recipe, and no folder '{}'", file.string(), folder.string()));
  }
  std::vector<std::string> recipes;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".toml") recipes.push_back(entry.path().filename().string());
  }
  std::ranges::sort(recipes);
  const std::string with_suffix = file.filename().string() + ".toml";
  const auto meant = std::ranges::count(recipes, with_suffix) > 0 ? std::optional(with_suffix)
                                                                  : nearest(file.filename().string(), recipes);
  if (meant) {
    throw RecipeError(fmt::format("{}: there is no such recipe; did you mean '{}'?", file.string(),
                                  (file.has_parent_path() ? file.parent_path() / *meant : fs::path(*meant)).string()));
  }
  throw RecipeError(fmt::format(
      "{}: there is no such recipe; give the path of a TOML file (see 'paceline recipe keys' for what it may hold)",
      file.string()));
}

// Reading must end, and be possible again: ranks and resumed runs read the file, too.
void require_recipe_size(const fs::path& file) {
  constexpr uintmax_t kMostBytes = 1 << 20;
  std::error_code ignored;
  const fs::file_type type = fs::status(file, ignored).type();
  if (ignored) return;  // read_file says why
  if (type != fs::file_type::regular)
    throw RecipeError(fmt::format("{}: is no file but a {}; write the recipe to a file, which every rank can read",
                                  file.string(), type == fs::file_type::fifo ? "pipe" : "device or socket"));
  const uintmax_t bytes = fs::file_size(file, ignored);
  if (!ignored && bytes > kMostBytes)
    throw RecipeError(
        fmt::format("{}: has {} bytes, a recipe at most {}: is it the right file?", file.string(), bytes, kMostBytes));
}

}  // namespace

std::string Recipe::where(std::string_view key) const {
  const auto place = written.find(std::string(key));
  return place == written.end() ? std::string(key) : fmt::format("{}: {}", place->second, key);
}

void Recipe::refuse(std::string_view key, const std::string& what) const {
  throw RecipeError(fmt::format("{}: {}", where(key), what));
}

Recipe read_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  std::error_code ignored;  // what exists but cannot be read fails in read_file, with the reason
  if (fs::is_directory(file, ignored)) {
    throw RecipeError(fmt::format("{}: is a folder; give the path of a recipe in it", file.string()));
  }
  if (fs::status(file, ignored).type() == fs::file_type::not_found) no_such_file(file);
  require_recipe_size(file);
  return parse_recipe(read_file(file), file.string(), overrides);
}

}  // namespace paceline
