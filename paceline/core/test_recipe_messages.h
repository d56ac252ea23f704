// For tests: recipes that are wrong, and the whole message that their author reads.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/recipe.h"

namespace paceline {

struct WrongRecipe {
  std::string toml;
  std::string message;
  std::vector<std::string> overrides = {};
};

inline void expect_messages(const std::vector<WrongRecipe>& recipes) {
  for (const WrongRecipe& wrong : recipes) {
    std::string message = "(accepted)";
    try {
      parse_recipe(wrong.toml, "r.toml", wrong.overrides);
    } catch (const RecipeError& error) {
      message = error.what();
    }
    EXPECT_EQ(message, wrong.message) << wrong.toml;
  }
}

}  // namespace paceline
