// The curves of a run: loss and accuracy over epochs, training and test, from its metrics.jsonl.
#pragma once

#include <filesystem>
#include <string>

namespace paceline {

// An SVG. Lines that cannot be read (a run still writing) are passed over. Throws FileError when there is no
// metrics.jsonl.
std::string run_chart_svg(const std::filesystem::path& run_folder);

}  // namespace paceline
