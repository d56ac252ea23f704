// Residual networks for images of 28 to 32 pixels (He et al., 2015, section 4.2): a 3x3 stem and three stages of 16, 32
// and 64 channels. Where the shape changes the shortcut is a 1x1 projection (the paper pads with zeros).
// resnet18_32px is ResNet-18 with that stem in place of the one that quarters the image: four stages of 64 to 512
// channels.
#pragma once

#include "paceline/models/resnet.h"

namespace paceline {

ResNetPlan resnet20_plan();
ResNetPlan resnet32_plan();
ResNetPlan resnet56_plan();
ResNetPlan resnet18_32px_plan();

}  // namespace paceline
