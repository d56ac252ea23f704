// Whether a model's numbers can be used.
#pragma once

#include <string>

#include "paceline/models/model.h"

namespace paceline {

// The name of the first parameter or buffer with an element that is not finite; empty: all are finite. Waits for the
// device.
std::string first_not_finite(const Model& model);

}  // namespace paceline
