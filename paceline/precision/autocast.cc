#include "paceline/precision/autocast.h"

#include <ATen/autocast_mode.h>

#include "paceline/core/check.h"
#include "paceline/precision/matrix_tiles.h"

namespace paceline {
namespace {

[[maybe_unused]] const bool tiles_avoided = avoid_undescribed_tiles();  // before main: nothing has used oneDNN yet

}  // namespace

Autocast::Autocast(torch::DeviceType device, std::optional<torch::ScalarType> type)
    : device_(device), active_(type.has_value()) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device);
  type_before_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_dtype(device, *type);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  // Rounded weights are kept for a second use in the same pass; the update would leave them behind.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

std::optional<torch::ScalarType> autocast_type(const std::string& precision) {
  if (precision == "f32") return std::nullopt;
  if (precision == "bf16") return torch::kBFloat16;
  CHECK_EQ(precision, "f16");
  return torch::kFloat16;
}

}  // namespace paceline
