// How the keys of a recipe are declared (recipe_*_sections.cc): what parsing, checking, printing and the documentation
// share. Users of recipes need recipe.h only.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "paceline/core/recipe.h"

namespace paceline {

// What a key can hold. The alternatives are the types of the members of Recipe.
using RecipeValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<double>>;

enum class KeyType { boolean, integer, number, text, numbers, size };

// Leads from a recipe to one of its members; made from a lambda `[](auto& r) -> auto& { return r.train.seed; }`.
class KeyMember {
 public:
  template <class Lambda>
  KeyMember(Lambda)  // NOLINT(google-explicit-constructor): a declaration names the lambda only
      : get_([](const Recipe& recipe) -> RecipeValue { return Lambda{}(recipe); }),
        set_([](Recipe& recipe, const RecipeValue& value) {
          auto& member = Lambda{}(recipe);
          member = std::get<std::remove_reference_t<decltype(member)>>(value);
        }) {}

  RecipeValue get(const Recipe& recipe) const { return get_(recipe); }
  void set(Recipe& recipe, const RecipeValue& value) const { set_(recipe, value); }  // REQUIRES: the member's own type

 private:
  RecipeValue (*get_)(const Recipe&);
  void (*set_)(Recipe&, const RecipeValue&);
};

// The numbers that a key takes; of a list, each element.
struct KeyRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_itself = true;
  bool high_itself = true;

  bool contains(double value) const;
};

// The value of another key with which a key has any effect. Given without it, the key is refused. Where a whole mode of
// a run leaves a key without effect, recipe_effects.h says so.
struct KeyCondition {
  enum class Kind { always, one_of, none_of, positive, zero };
  Kind kind = Kind::always;
  std::string key;                 // the key that decides: "schedule.name"
  std::vector<std::string> words;  // for one_of and none_of

  bool holds(const Recipe& recipe) const;
  std::string text() const;  // `schedule.name = "step"`; empty: always
};

// A word that may stand for a number: "auto".
struct NumberWord {
  std::string word;
  int64_t stands_for = 0;
};

struct DeclaredKey {
  std::string name;
  KeyMember member;
  std::string meaning;
  KeyRange range = {};                         // of numbers
  std::vector<std::string> words = {};         // of text: the only ones allowed; empty: any
  std::string unit = "";                       // an unsigned integer in "bytes" is a size
  std::optional<NumberWord> number_word = {};  // of integers
  KeyCondition applies = {};
  std::string hint = "";     // ends the message when a value is out of range
  std::string section = "";  // set from the section that holds it

  std::string full_name() const { return section + "." + name; }
  KeyType type() const;
  RecipeValue default_value() const;
  std::string allowed() const;  // "> 0", "cpu, cuda"
};

struct DeclaredSection {
  std::string name, meaning;
  std::vector<DeclaredKey> keys;
};

// In the order in which they are documented and printed.
const std::vector<DeclaredSection>& declared_sections();
const DeclaredSection* find_section(std::string_view name);  // null: none
const DeclaredKey* find_key(std::string_view full_name);     // "train.seed"; null: none
std::string_view name_of(KeyType type);                      // "list of numbers"

// recipe_check.cc
// What is wrong with a single number, size or word for this key: "-0.1 is out of range (allowed: > 0)".
std::optional<std::string> refusal(const DeclaredKey& key, const RecipeValue& value);
// What is wrong with keys that are right each alone: they contradict, or a key that is given has no effect (unless any
// effect will do). Whole messages.
enum class Effects { required, any };
std::vector<std::string> contradictions(const Recipe& recipe, Effects effects = Effects::required);

bool is_known_and_not_sgd(const std::string& optimizer);  // a program may add optimizers of its own

// recipe_print.cc
std::string print_value(const DeclaredKey& key, const RecipeValue& value);  // as TOML
std::string print_number(double value);         // the shortest text that gives it back exactly
std::string print_text(std::string_view text);  // in quotes, escaped

}  // namespace paceline
