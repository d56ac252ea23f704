#include "paceline/models/small_resnet.h"

namespace paceline {
namespace {

ResNetPlan three_stages(int blocks) {
  return {.block = ResNetPlan::Block::basic,
          .blocks = {blocks, blocks, blocks},
          .width = 16,
          .stem = ResNetPlan::Stem::plain};
}

}  // namespace

// Depth: two convolutions per block, the stem, and the linear layer.
ResNetPlan resnet20_plan() { return three_stages(3); }
ResNetPlan resnet32_plan() { return three_stages(5); }
ResNetPlan resnet56_plan() { return three_stages(9); }

ResNetPlan resnet18_32px_plan() {
  ResNetPlan plan = resnet18_plan();
  plan.stem = ResNetPlan::Stem::plain;
  return plan;
}

}  // namespace paceline
