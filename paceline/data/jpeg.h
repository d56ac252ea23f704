// JPEG images as the bytes that data sets are made of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "paceline/data/dataset.h"

namespace paceline {

// Decodes a JPEG file to red, green and blue planes; a grey image becomes three equal ones. The same bits on every
// machine. Thread-safe. Throws DataError, which names the file, when it is missing, not of that shape, or damaged:
// libjpeg would fill what is missing of a cut image with grey.
// REQUIRES: shape.channels == 3, planes.size() == shape.elements()
void decode_jpeg(const std::filesystem::path& file, const ImageShape& shape, std::span<uint8_t> planes);

}  // namespace paceline
