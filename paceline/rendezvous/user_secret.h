// The secret that all runs of one user share, in the user's home: for ranks that srun or torchrun starts, where nobody
// hands out a secret for each run.
#pragma once

#include "paceline/rendezvous/secret.h"

namespace paceline {

// Reads HOME/.config/paceline/secret; the first process that finds none draws one. The file is made whole and flushed.
// Throws UsageError: there is no HOME, the secret is empty, or other users may read or write the file. Throws
// FileError: the file cannot be read or made.
Secret user_secret(const Environment& environment);

}  // namespace paceline
