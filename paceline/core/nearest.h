// The known name that was probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// The candidate with the fewest edits (insert, delete, replace, swap of neighbours) if it is close enough to be a
// typing error; the first one in order at equal distance. Else the only one that begins with `word`.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'resnet18'?" or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace paceline
