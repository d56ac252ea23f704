// One Chrome trace of what all ranks of a group did.
#pragma once

#include <filesystem>

#include "paceline/comm/group.h"
#include "paceline/metrics/timeline.h"

namespace paceline {

// Every rank calls it with its own timeline; rank 0 writes the file.
void write_group_trace(Timeline& timeline, Group& group, const std::filesystem::path& path);

}  // namespace paceline
