#include "paceline/cli/recipe_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "paceline/cli/recipe_plot_command.h"
#include "paceline/core/error.h"
#include "paceline/core/nearest.h"
#include "paceline/core/recipe_effects.h"
#include "paceline/core/recipe_keys.h"
#include "paceline/core/recipe_notes.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

// Columns of the table of keys: key, type, default, allowed, meaning. With the gaps between them, 116 characters.
constexpr size_t kWidths[] = {17, 8, 15, 22, 44};
constexpr size_t kColumns = std::size(kWidths);
using Row = std::array<std::string, kColumns>;

// Lines of at most `width` characters, broken at spaces; a longer word stands alone.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines = {""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

std::string table_row(const Row& cells) {
  std::vector<std::vector<std::string>> columns;
  size_t height = 0;
  for (size_t i = 0; i < kColumns; ++i) {
    columns.push_back(wrapped(cells[i], kWidths[i]));
    height = std::max(height, columns.back().size());
  }
  std::string row;
  for (size_t line = 0; line < height; ++line) {
    std::string text;
    for (size_t i = 0; i < kColumns; ++i) {
      text += fmt::format("  {:<{}}", line < columns[i].size() ? columns[i][line] : "", kWidths[i]);
    }
    row += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  return row;
}

// Keys of a section of that name, or else whose name or meaning contains the text; all for an empty one.
std::vector<RecipeKey> matching_keys(const std::string& filter) {
  std::vector<RecipeKey> keys = recipe_keys();
  if (filter.empty()) return keys;
  const auto is_section = [&](const RecipeKey& key) { return key.section == filter; };
  const bool whole_section = std::ranges::any_of(keys, is_section);
  std::vector<std::string> names;
  for (const RecipeKey& key : keys) names.insert(names.end(), {key.section, key.name});
  std::erase_if(keys, [&](const RecipeKey& key) {
    const std::string full_name = key.section + "." + key.name;
    return whole_section ? !is_section(key)
                         : full_name.find(filter) == std::string::npos && key.meaning.find(filter) == std::string::npos;
  });
  if (keys.empty())
    throw UsageError(
        fmt::format("no key of a recipe has '{}' in its name or meaning{}", filter, did_you_mean(filter, names)));
  return keys;
}

std::string keys_table(const std::vector<RecipeKey>& keys) {
  std::string table = table_row({"key", "type", "default", "allowed", "meaning [unit]"});
  std::string section;
  for (const RecipeKey& key : keys) {
    if (key.section != section) {
      section = key.section;
      table += fmt::format("\n[{}]  {}\n", section, find_section(section)->meaning);
    }
    const std::string unit = key.unit.empty() ? "" : fmt::format(" [{}]", key.unit);
    const std::string condition = key.applies.empty() ? "" : fmt::format(" (only with {})", key.applies);
    table += table_row({key.name, key.type, key.default_value, key.allowed, key.meaning + unit + condition});
  }
  return table;
}

std::string keys_json(const std::vector<RecipeKey>& chosen) {
  Json keys = Json::array();
  for (const RecipeKey& key : chosen) {
    keys.push_back({{"section", key.section},
                    {"name", key.name},
                    {"type", key.type},
                    {"default", key.default_value},
                    {"allowed", key.allowed},
                    {"unit", key.unit},
                    {"meaning", key.meaning},
                    {"only_with", key.applies}});
  }
  return keys.dump(2) + "\n";
}

std::string recipe_json(const Recipe& recipe) {
  Json sections;
  for (const DeclaredSection& section : declared_sections()) {
    for (const DeclaredKey& key : section.keys) {
      if (!may_be_given(key, recipe)) continue;  // as print_recipe
      std::visit([&](const auto& value) { sections[section.name][key.name] = value; }, key.member.get(recipe));
    }
  }
  return sections.dump(2) + "\n";
}

void add_keys_command(CLI::App& recipe) {
  struct Options {
    std::string filter;
    bool json = false, markdown = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* keys = recipe.add_subcommand("keys", "Print every key that a recipe may hold");
  keys->add_option("FILTER", options->filter, "Only keys of this section, or with this in their name or meaning");
  CLI::Option* json = keys->add_flag("--json", options->json, "As JSON, for programs");
  keys->add_flag("--markdown", options->markdown, "As docs/recipe.md")->excludes(json);
  keys->footer(
      "Examples:\n"
      "  paceline recipe keys\n"
      "  paceline recipe keys optimizer\n"
      "  paceline recipe keys warmup");
  keys->callback([options] {
    if (options->markdown) {
      std::cout << recipe_keys_markdown();
    } else {
      const std::vector<RecipeKey> chosen = matching_keys(options->filter);
      std::cout << (options->json ? keys_json(chosen) : keys_table(chosen));
    }
  });
}

void add_show_command(CLI::App& recipe) {
  struct Options {
    std::string file;
    std::vector<std::string> overrides;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* show = recipe.add_subcommand("show", "Print a recipe with every default and --set in place");
  show->add_option("RECIPE", options->file, "A TOML file")->required();
  show->add_option("--set", options->overrides, "Replace a key of the recipe (may be repeated)")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  show->add_flag("--json", options->json, "As JSON, for programs");
  show->footer(
      "Examples:\n"
      "  paceline recipe show recipes/fashion_mnist.toml\n"
      "  paceline recipe show recipes/fashion_mnist.toml --set optimizer.name=adam --json");
  show->callback([options] {
    const Recipe resolved = read_recipe(options->file, options->overrides);
    for (const std::string& note : override_notes(options->file, options->overrides))
      fmt::print(stderr, "paceline: warning: {}\n", note);
    std::cout << (options->json ? recipe_json(resolved) : print_recipe(resolved));
  });
}

}  // namespace

void add_recipe_command(CLI::App& app) {
  CLI::App* recipe = app.add_subcommand("recipe", "Show what recipes may hold, what one holds, and what it plans");
  recipe->require_subcommand(1);
  add_keys_command(*recipe);
  add_show_command(*recipe);
  add_recipe_plot_command(*recipe);
}

}  // namespace paceline
