// Which folder a run gets.
#pragma once

#include <string>

#include "paceline/train/run_folder.h"

namespace paceline {

// With --out: that folder; one that holds a run already is refused (UsageError) unless the run is to go on.
// Without: runs/TITLE, or the first free one of runs/TITLE-2, -3, ...; to resume, the last one of them that holds a
// run. Where there is no run to resume it begins there: a script that starts a run again gives --resume every time.
RunFolder choose_run_folder(const std::string& title, const std::string& out, bool resume);

}  // namespace paceline
