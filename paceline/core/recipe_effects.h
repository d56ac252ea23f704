// The one table of where a key of a recipe has no effect: in which mode of a run, with which model, and why.
//
// A mode is how the processes of a run work together (sync.policy: in step, in turns, on a parameter server) and where
// they compute. That a key belongs to another one ("schedule.milestones only with schedule.name = step") is declared
// with the key (DeclaredKey::applies). The number of ranks is no mode: a recipe holds for any number of them.
#pragma once

#include <span>
#include <string_view>

#include "paceline/core/recipe_keys.h"

namespace paceline {

struct KeyWithoutEffect {
  enum class Refused {
    when_given,          // whatever it says, nothing follows from it
    unless_off,          // 0 or false says what is done
    other_than_default,  // the default says what is done (off, automatic), anything else is not
  };
  std::string_view key;       // "sync.k"
  bool (*in)(const Recipe&);  // the runs in which it has no effect
  std::string_view where;     // the same in words: "on a parameter server"
  std::string_view decides;   // the key that makes it so: "sync.policy"
  std::string_view reason;    // ends with what to write instead, where there is something
  Refused refused = Refused::other_than_default;
};

std::span<const KeyWithoutEffect> keys_without_effect();

// The entry because of which `key` must not be given in this recipe, or not with its value; null: there is none.
const KeyWithoutEffect* refused_by_mode(const DeclaredKey& key, const Recipe& recipe);

// Whether the key may be given at all: print_recipe() leaves out what parsing would refuse.
bool may_be_given(const DeclaredKey& key, const Recipe& recipe);

// "on a parameter server or with sync.policy = \"local_sgd\"": where the key has no effect, for its documentation.
std::string no_effect_text(std::string_view key);

// For recipes that were not parsed but made by a program. Throws RecipeError for the first key whose value is not what
// the mode does.
void require_values_of_mode(const Recipe& recipe);

}  // namespace paceline
