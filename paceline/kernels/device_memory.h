// How much room a CUDA device has.
#pragma once

#include <cstddef>

namespace paceline {

size_t free_device_bytes();  // of the current device

}  // namespace paceline
