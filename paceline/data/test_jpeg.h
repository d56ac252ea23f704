// For the tests of this folder: JPEG files, written by libjpeg.
#pragma once

#include <cstdio>

#include <jpeglib.h>  // expects FILE to be known

#include <cstdlib>

#include "paceline/data/test_files.h"

namespace paceline {

// The JPEG of `pixels`, row by row; `components` of them make one: 3 red, green, blue; 1 grey; 4 cyan, magenta, yellow,
// black. Quality 100: an image of one colour comes back to within a rounding of its colours.
inline Bytes encode_jpeg(const Bytes& pixels, int width, int height, int components) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);  // ends the program on an error
  jpeg_create_compress(&jpeg);
  unsigned char* data = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&jpeg, &data, &count);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = components;
  jpeg.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < height; ++y) {
    auto* row = const_cast<uint8_t*>(pixels.data()) + static_cast<ptrdiff_t>(y) * width * components;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  Bytes bytes(data, data + count);
  jpeg_destroy_compress(&jpeg);
  std::free(data);
  return bytes;
}

// An image of one colour: as many components as numbers.
inline Bytes plain_jpeg(const Bytes& colour, int width = 64, int height = 64) {
  Bytes pixels;
  for (int i = 0; i < width * height; ++i) pixels.insert(pixels.end(), colour.begin(), colour.end());
  return encode_jpeg(pixels, width, height, static_cast<int>(colour.size()));
}

}  // namespace paceline
