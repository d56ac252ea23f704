// Recipes and the declaration of their keys as text: TOML that parses to the same recipe, and docs/recipe.md.
#include <fmt/format.h>

#include "paceline/core/bytes.h"
#include "paceline/core/recipe_effects.h"
#include "paceline/core/recipe_keys.h"

namespace paceline {
namespace {

// The introduction of docs/recipe.md; the tables follow.
constexpr std::string_view kIntroduction = R"(# The keys of a recipe

<!-- Made by `paceline recipe keys --markdown > docs/recipe.md`; the source is paceline/core/recipe_*_sections.cc. -->

A recipe is a [TOML](https://toml.io) file. A key that is not given has its default; an unknown key, a value that is not
allowed and a key without effect are errors. Where a policy or a model leaves a key without effect, "no effect ..." below
says so, and the key is refused there ([keys and modes](design/keys_and_modes.md)). `--set section.key=value` on the
command line goes before the file: the value is TOML, and a bare word counts as text (`--set train.device=cuda`);
`--set section.key=default` leaves a key of the file out. `batch.global` and `batch.local` say the same thing in two
ways, so setting one replaces the other. `paceline recipe show RECIPE` prints a recipe with all its keys.

- **number**: with or without a fraction. Epochs are real numbers everywhere: 0.5 is half a pass over the data.
- **size**: a number of bytes, or text with a unit. K, M and G are decimal, KiB, MiB and GiB binary: `"4MiB"`.
)";

}  // namespace

std::string print_number(double value) {
  const std::string text = fmt::format("{}", value);  // the shortest that reads back exactly
  return text == "-0" ? "-0.0" : text;                // an integer has no negative zero
}

std::string print_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (code < 0x20 || code == 0x7f) {
      result += fmt::format("\\u{:04X}", code);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string print_value(const DeclaredKey& key, const RecipeValue& value) {
  const auto* const integer = std::get_if<int64_t>(&value);
  if (key.number_word && integer != nullptr && *integer == key.number_word->stands_for)
    return print_text(key.number_word->word);
  struct Printer {
    bool is_size;
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(uint64_t v) const {
      const std::string plain = fmt::format("{}", v);
      if (!is_size || print_bytes(v) == plain) return plain;
      return print_text(print_bytes(v));
    }
    std::string operator()(double v) const { return print_number(v); }
    std::string operator()(const std::string& v) const { return print_text(v); }
    std::string operator()(const std::vector<double>& v) const {
      std::vector<std::string> numbers;
      for (const double number : v) numbers.push_back(print_number(number));
      return fmt::format("[{}]", fmt::join(numbers, ", "));
    }
  };
  return std::visit(Printer{key.type() == KeyType::size}, value);
}

std::string print_recipe(const Recipe& recipe) {
  std::string text;
  for (const DeclaredSection& section : declared_sections()) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name);
    for (const DeclaredKey& key : section.keys) {
      if (!may_be_given(key, recipe)) continue;  // parsing would refuse it
      text += fmt::format("{} = {}\n", key.name, print_value(key, key.member.get(recipe)));
    }
  }
  return text;
}

std::vector<std::string> recipe_changes(const Recipe& before, const Recipe& after) {
  std::vector<std::string> changes;
  for (const DeclaredSection& section : declared_sections()) {
    for (const DeclaredKey& key : section.keys) {
      const std::string was = print_value(key, key.member.get(before)), is = print_value(key, key.member.get(after));
      if (was != is) changes.push_back(fmt::format("{}: {} -> {}", key.full_name(), was, is));
    }
  }
  return changes;
}

namespace {

// "; no effect on a parameter server": what the documentation of a key ends with.
std::string without_effect(const DeclaredKey& key) {
  const std::string where = no_effect_text(key.full_name());
  return where.empty() ? "" : "; no effect " + where;
}

}  // namespace

std::vector<RecipeKey> recipe_keys() {
  std::vector<RecipeKey> keys;
  for (const DeclaredSection& section : declared_sections()) {
    for (const DeclaredKey& key : section.keys) {
      keys.push_back({.section = section.name,
                      .name = key.name,
                      .type = std::string(name_of(key.type())),
                      .default_value = print_value(key, key.default_value()),
                      .allowed = key.allowed(),
                      .unit = key.unit,
                      .meaning = key.meaning + without_effect(key),
                      .applies = key.applies.text()});
    }
  }
  return keys;
}

std::string recipe_keys_markdown() {
  std::string text(kIntroduction);
  std::string section;
  for (const RecipeKey& key : recipe_keys()) {
    if (key.section != section) {
      section = key.section;
      text += fmt::format(
          "\n## [{}]\n\n{}\n\n| key | type | default | allowed | unit | meaning |\n| --- | --- | --- | --- | --- | --- "
          "|\n",
          section, find_section(section)->meaning);
    }
    const std::string condition = key.applies.empty() ? "" : fmt::format(" (only with `{}`)", key.applies);
    text += fmt::format("| `{}` | {} | `{}` | {} | {} | {}{} |\n", key.name, key.type, key.default_value, key.allowed,
                        key.unit, key.meaning, condition);
  }
  return text;
}

}  // namespace paceline
