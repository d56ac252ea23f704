#include "paceline/train/finite_model.h"

#include "paceline/precision/finite_check.h"

namespace paceline {

std::string first_not_finite(const Model& model) {
  for (const auto& named : model.named_parameters())
    if (count_not_finite(named.value().detach()) > 0) return named.key();
  for (const auto& named : model.named_buffers())
    if (named.value().is_floating_point() && count_not_finite(named.value()) > 0) return named.key();
  return "";
}

}  // namespace paceline
