// What people should know of a recipe that the command line has changed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

// A sentence for the keys of the file that overrides leave without effect, and so leave out; and one for a learning
// rate that was meant for another optimizer. REQUIRES: read_recipe() accepts them.
std::vector<std::string> override_notes(const std::filesystem::path& file, const std::vector<std::string>& overrides);

}  // namespace paceline
