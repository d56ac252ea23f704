// The CUDA kernels of batch normalisation beside their reference, and the operation made of them beside torch's.
#pragma once

namespace paceline {

// Prints rows; false when one of them failed.
bool check_batch_norm();

// Prints how long each pass takes, and what torch's own sequence takes. Slow cards and other work on the card show.
void time_batch_norm();

}  // namespace paceline
