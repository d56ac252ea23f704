// What can be asked of the keys of a recipe; recipe_training_sections.cc and recipe_communication_sections.cc declare
// them.
#include "paceline/core/recipe_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/bytes.h"
#include "paceline/core/check.h"
#include "paceline/core/recipe_sections.h"

namespace paceline {
namespace {

std::string quoted(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const std::string& word : words) texts.push_back(print_text(word));
  return fmt::format("{}", fmt::join(texts, " or "));
}

}  // namespace

bool KeyRange::contains(double value) const {
  return (low_itself ? value >= low : value > low) && (high_itself ? value <= high : value < high);
}

bool KeyCondition::holds(const Recipe& recipe) const {
  if (kind == Kind::always) return true;
  const DeclaredKey* decides = find_key(key);
  CHECK_TRUE(decides != nullptr, "{}", key);
  const RecipeValue value = decides->member.get(recipe);
  if (kind == Kind::one_of || kind == Kind::none_of) {
    return (std::ranges::count(words, std::get<std::string>(value)) > 0) == (kind == Kind::one_of);
  }
  const double number = value.index() == 3 ? std::get<double>(value) : static_cast<double>(std::get<int64_t>(value));
  return kind == Kind::positive ? number > 0 : number == 0;
}

std::string KeyCondition::text() const {
  switch (kind) {
    case Kind::always:
      return "";
    case Kind::one_of:
      return fmt::format("{} = {}", key, quoted(words));
    case Kind::none_of:
      return fmt::format("{} other than {}", key, quoted(words));
    case Kind::positive:
      return fmt::format("{} > 0", key);
    case Kind::zero:
      return fmt::format("{} = 0", key);
  }
  return "";
}

KeyType DeclaredKey::type() const {
  switch (default_value().index()) {
    case 0:
      return KeyType::boolean;
    case 1:
      return KeyType::integer;
    case 2:
      return unit == "bytes" ? KeyType::size : KeyType::integer;
    case 3:
      return KeyType::number;
    case 4:
      return KeyType::text;
    default:
      return KeyType::numbers;
  }
}

RecipeValue DeclaredKey::default_value() const {
  static const Recipe defaults;
  return member.get(defaults);
}

std::string DeclaredKey::allowed() const {
  const KeyType kind = type();
  if (kind == KeyType::boolean) return "true, false";
  if (kind == KeyType::text) return words.empty() ? "any" : fmt::format("{}", fmt::join(words, ", "));
  const auto bound = [&](double value) {
    return kind == KeyType::size ? print_bytes(static_cast<uint64_t>(value)) : print_number(value);
  };
  if (range.high == KeyRange{}.high) return fmt::format("{} {}", range.low_itself ? ">=" : ">", bound(range.low));
  if (range.low_itself && range.high_itself)
    return fmt::format("{} to {}{}", bound(range.low), bound(range.high),
                       number_word ? fmt::format(", \"{}\"", number_word->word) : "");
  return fmt::format("{} {} and {} {}", range.low_itself ? ">=" : ">", bound(range.low), range.high_itself ? "<=" : "<",
                     bound(range.high));
}

const std::vector<DeclaredSection>& declared_sections() {
  static const std::vector<DeclaredSection> sections = [] {
    std::vector<DeclaredSection> declared = training_sections();
    for (DeclaredSection& section : communication_sections()) declared.push_back(std::move(section));
    for (DeclaredSection& section : declared) {
      for (DeclaredKey& key : section.keys) key.section = section.name;
    }
    return declared;
  }();
  return sections;
}

const DeclaredSection* find_section(std::string_view name) {
  for (const DeclaredSection& section : declared_sections()) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const DeclaredKey* find_key(std::string_view full_name) {
  const size_t dot = full_name.find('.');
  const DeclaredSection* section = find_section(full_name.substr(0, dot));
  if (section == nullptr || dot == std::string_view::npos) return nullptr;
  for (const DeclaredKey& key : section->keys) {
    if (key.name == full_name.substr(dot + 1)) return &key;
  }
  return nullptr;
}

std::string_view name_of(KeyType type) {
  constexpr std::string_view kNames[] = {"boolean", "integer", "number", "text", "list of numbers", "size"};
  return kNames[static_cast<size_t>(type)];
}

}  // namespace paceline
