// The public face of data-parallel training in your own program: DataParallel, World, and the codecs. Stable.
#pragma once

#include "paceline/codecs/codec.h"             // IWYU pragma: export
#include "paceline/gradients/data_parallel.h"  // IWYU pragma: export
#include "paceline/rendezvous/world.h"         // IWYU pragma: export
