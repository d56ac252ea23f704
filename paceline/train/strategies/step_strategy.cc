#include "paceline/train/strategies/step_strategy.h"

#include "paceline/train/strategies/in_step.h"
#include "paceline/train/strategies/local_sgd.h"
#include "paceline/train/strategies/stale.h"

namespace paceline {

std::unique_ptr<StepStrategy> make_step_strategy(StepParts parts) {
  const std::string& policy = parts.recipe.sync.policy;
  if (policy == "stale_allreduce") return std::make_unique<Stale>(std::move(parts));
  // A single rank has nobody to meet.
  if (policy == "local_sgd" && parts.group.size() > 1) return std::make_unique<LocalSgd>(std::move(parts));
  return std::make_unique<InStep>(std::move(parts));
}

}  // namespace paceline
