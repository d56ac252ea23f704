#include "paceline/train/strategies/on_device.h"

namespace paceline {

std::unique_ptr<StepMaker> make_step_maker(const StepParts& parts, Group& group, Reducer& reducer) {
  auto host_step = std::make_unique<TrainStep>(parts.model, parts.optimizer, group, parts.recipe, reducer,
                                               parts.timeline, parts.scaler);
  const bool may_queue = parts.as_on_device || DeviceStep::why_not(parts.recipe, group.size()).empty();
  if (!may_queue || !reducer.state().empty()) return host_step;
  return std::make_unique<OnDevice>(DeviceStep(parts.model, parts.optimizer, parts.recipe, reducer, parts.scaler),
                                    std::move(host_step), parts.scaler);
}

}  // namespace paceline
