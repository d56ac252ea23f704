#include "paceline/train/strategies/in_step.h"

#include <utility>

#include "paceline/train/assemble.h"
#include "paceline/train/strategies/on_device.h"

namespace paceline {

InStep::InStep(StepParts parts) : parts_(std::move(parts)) {
  reducer_ =
      build_reducer(parts_.recipe, parts_.catalog, *parts_.model, parts_.group, parts_.timeline, parts_.stored_plan);
  synchronise_batch_norm(parts_.recipe, *parts_.model, parts_.group, exchange_ns_);
}

void InStep::begin() { maker_ = make_step_maker(parts_, parts_.group, *reducer_); }

Reducer::Cost InStep::take_cost() {
  Reducer::Cost cost = reducer_->take_cost();
  const int64_t exchange_ns = std::exchange(exchange_ns_, 0);
  cost.busy_ns += exchange_ns;
  cost.exposed_ns += exchange_ns;
  return cost;
}

}  // namespace paceline
