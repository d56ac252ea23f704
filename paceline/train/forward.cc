#include "paceline/train/forward.h"

#include "paceline/precision/autocast.h"

namespace paceline {

torch::Tensor logits_of(Model& model, const torch::Tensor& images, const std::string& precision) {
  const Autocast autocast(images.device().type(), autocast_type(precision));
  return model.forward(images).to(torch::kFloat32);
}

}  // namespace paceline
