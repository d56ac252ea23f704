#include "paceline/core/recipe_notes.h"

#include <fmt/format.h>

#include <optional>

#include "paceline/core/error.h"
#include "paceline/core/recipe_keys.h"

namespace paceline {
namespace {

std::optional<Recipe> read_if_valid(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  try {
    return read_recipe(file, overrides);
  } catch (const RecipeError&) {  // a file that needs the overrides
    return std::nullopt;
  }
}

bool is_override(const Recipe& recipe, const std::string& key) {
  const auto place = recipe.written.find(key);
  return place != recipe.written.end() && place->second.starts_with("--set");
}

bool is_named(const std::vector<std::string>& overrides, const std::string& key) {
  for (const std::string& text : overrides)
    if (text.starts_with(key + "=")) return true;
  return false;
}

}  // namespace

std::vector<std::string> override_notes(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  std::vector<std::string> notes;
  const std::optional<Recipe> before = overrides.empty() ? std::nullopt : read_if_valid(file, {});
  if (!before) return notes;
  const Recipe after = read_recipe(file, overrides);

  std::vector<std::string> left_out;
  for (const auto& [key, place] : before->written) {
    const bool is_other_batch = key == "batch.global" || key == "batch.local";  // the one replaces the other
    if (!after.written.contains(key) && !is_named(overrides, key) && !is_other_batch) left_out.push_back(key);
  }
  if (!left_out.empty())
    notes.push_back(fmt::format("left out of {}, as --set leaves {} without effect: {}", file.string(),
                                left_out.size() == 1 ? "it" : "them", fmt::join(left_out, ", ")));

  if (!is_override(after, "optimizer.name") || before->optimizer.name == after.optimizer.name ||
      !after.written.contains("optimizer.rate") || is_override(after, "optimizer.rate"))
    return notes;
  std::vector<std::string> by_default = overrides;
  by_default.emplace_back("optimizer.rate=default");
  const std::optional<Recipe> usual = read_if_valid(file, by_default);
  if (usual && usual->optimizer.rate != after.optimizer.rate)
    notes.push_back(
        fmt::format("{}: optimizer.rate stays {}, which was meant for {}; {} begins with {} by default: --set "
                    "optimizer.rate=default",
                    after.written.at("optimizer.rate"), print_number(after.optimizer.rate), before->optimizer.name,
                    after.optimizer.name, print_number(usual->optimizer.rate)));
  return notes;
}

}  // namespace paceline
