// Recipes (core/recipe.h): a file, and what stands behind --set.
//
// Input: the parts, with a zero byte between them; the first one is the file. A recipe that is accepted is the same
// when it was printed and read again.
#include "paceline/core/recipe.h"

#include "paceline/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  std::string_view input = fuzz::text_of({data, size});
  const std::string_view file = input.substr(0, input.find('\0'));
  std::vector<std::string> overrides;
  while (input.find('\0') != std::string_view::npos) {
    input.remove_prefix(input.find('\0') + 1);
    overrides.emplace_back(input.substr(0, input.find('\0')));
  }
  try {
    const Recipe recipe = parse_recipe(file, "r.toml", overrides);
    const std::string printed = print_recipe(recipe);
    const Recipe again = parse_recipe(printed, "r.toml");
    fuzz::require(print_recipe(again) == printed, "a printed recipe is read as it was");
    fuzz::require(recipe_changes(recipe, again).empty(), "a printed recipe has no changes");
  } catch (const RecipeError&) {
  }
  return 0;
}
