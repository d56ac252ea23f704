// How far a run on a parameter server was when its chief last looked: seen.json in the run's folder, so that whoever
// goes on from a checkpoint can say how many updates are lost.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/train/run_folder.h"

namespace paceline {

void note_last_seen(const RunFolder& folder, int64_t updates);

// The most updates that the folder tells of, in seen.json or a line of metrics.jsonl; 0: none. Servers may have made
// more since, which nobody wrote down. Files that cannot be read are left aside.
int64_t last_seen_updates(const RunFolder& folder);

// "the run had made at least 1,347 updates when last seen: at least 147 are lost". `from`: those in the checkpoint.
std::string what_is_lost(int64_t from, int64_t last_seen);

}  // namespace paceline
