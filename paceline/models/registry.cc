// The models that come with Paceline.
//
// Smallest inputs: where a pool or an unpadded convolution would be left without pixels (VGG, AlexNet), or else where
// the last strided layer would have a single pixel to reduce.
#include "paceline/models/alexnet.h"
#include "paceline/models/mobilenet.h"
#include "paceline/models/model.h"
#include "paceline/models/resnet.h"
#include "paceline/models/small_cnn.h"
#include "paceline/models/small_resnet.h"
#include "paceline/models/vgg.h"

namespace paceline {
namespace {

ModelInfo residual(std::string summary, int64_t smallest_input, const ResNetPlan& plan, int64_t usual_input = 224) {
  return {std::move(summary), smallest_input,
          [plan](const ModelOptions& options) { return std::make_shared<ResNet>(plan, options); }, usual_input,
          /*any_aspect=*/true};
}

template <class Network, auto... first_arguments>
ModelInfo network(std::string summary, int64_t smallest_input, int64_t usual_input = 224) {
  return {std::move(summary), smallest_input,
          [](const ModelOptions& options) { return std::make_shared<Network>(first_arguments..., options); },
          usual_input, /*any_aspect=*/true};
}

}  // namespace

Registry<ModelInfo> builtin_models() {
  Registry<ModelInfo> models("model");
  models.add("resnet18", residual("ResNet-18, basic blocks", 17, resnet18_plan()));
  models.add("resnet34", residual("ResNet-34, basic blocks", 17, resnet34_plan()));
  models.add("resnet50", residual("ResNet-50 v1.5, bottleneck blocks", 17, resnet50_plan()));
  models.add("resnet101", residual("ResNet-101 v1.5, bottleneck blocks", 17, resnet101_plan()));
  models.add("resnet20", residual("ResNet-20 for 28 to 32 px", 3, resnet20_plan(), 32));
  models.add("resnet32", residual("ResNet-32 for 28 to 32 px", 3, resnet32_plan(), 32));
  models.add("resnet56", residual("ResNet-56 for 28 to 32 px", 3, resnet56_plan(), 32));
  models.add("resnet18_32px", residual("ResNet-18 for 28 to 32 px", 5, resnet18_32px_plan(), 32));
  models.add("vgg16", network<Vgg16, Vgg16::Normalisation::none>("VGG-16", 32));
  models.add("vgg16_bn", network<Vgg16, Vgg16::Normalisation::batch>("VGG-16 with batch normalisation", 32));
  models.add("mobilenet_v1", network<MobileNetV1>("MobileNet v1, width 1", 17));
  models.add("alexnet", network<AlexNet, AlexNet::Normalisation::none>("AlexNet, one tower", 63));
  models.add("alexnet_bn", network<AlexNet, AlexNet::Normalisation::after_last_pool>(
                               "AlexNet with batch normalisation after pool 5", 63));
  models.add("small_cnn", network<SmallCnn>("small convolutional network for 28 to 32 px", 4, 32));
  return models;
}

}  // namespace paceline
