// Where in a model numbers stop being finite.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "paceline/models/model.h"

namespace paceline {

// Runs `forward`, which calls model.forward() on this thread, and looks at what every operation gives. The name of the
// first layer (a module with parameters of its own) in or after which something is not finite; "the input": it was so
// before any layer; nothing: all is finite. Slow: for a step that has failed.
std::optional<std::string> first_layer_not_finite(const Model& model, const std::function<void()>& forward);

}  // namespace paceline
