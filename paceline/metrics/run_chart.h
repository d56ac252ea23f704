// The curves of a run: loss and accuracy over epochs, training and test, from its metrics.jsonl.
#pragma once

#include <filesystem>
#include <string>

#include "paceline/core/recipe.h"

namespace paceline {

// An SVG under that title; epochs begin at 0. Lines that cannot be read (a run still writing) are passed over. Throws
// FileError when there is no metrics.jsonl.
std::string run_chart_svg(const std::filesystem::path& run_folder, const std::string& title);

// "fashion_mnist: small_cnn on fashion_mnist"
std::string chart_title(const Recipe& recipe);

}  // namespace paceline
