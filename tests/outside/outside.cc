// Trains for a few steps with the installed package; prints what the test looks for.
#include <cstdio>

#include "paceline/comm/engine_local.h"
#include "paceline/core/recipe.h"
#include "paceline/train/trainer.h"

int main() {
  const paceline::Recipe recipe = paceline::parse_recipe(
      "[data]\nname = \"synthetic\"\ntrain_samples = 256\ntest_samples = 64\nchannels = 1\nimage_size = 28\n"
      "[train]\nmax_steps = 5\n[batch]\nglobal = 32\n",
      "outside.toml");
  const auto group = paceline::make_local_group();
  const paceline::Summary summary = paceline::Trainer(recipe, *group, {}).run();
  std::printf("trained %d steps with Paceline %s\n", static_cast<int>(summary.steps), summary.version.c_str());
}
