#include "paceline/data/jpeg.h"

// libjpeg's header expects FILE to be known.
#include <cstdio>

#include <jpeglib.h>

#include <csetjmp>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/data/data_file.h"

namespace paceline {
namespace {

constexpr uint64_t kLargestFileBytes = 64 << 20;

// One decompression. libjpeg reports an error by calling error_exit, which must not return: it jumps to `escape`.
struct Decompression {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf escape;
  char failure[JMSG_LENGTH_MAX] = "";

  Decompression() {
    jpeg.err = jpeg_std_error(&errors);
    jpeg.client_data = this;
    errors.error_exit = [](j_common_ptr info) {
      auto* self = static_cast<Decompression*>(info->client_data);
      info->err->format_message(info, self->failure);
      std::longjmp(self->escape, 1);
    };
    // Warnings (negative levels) are damage, too; messages of other levels trace what libjpeg does.
    errors.emit_message = [](j_common_ptr info, int level) {
      if (level < 0) info->err->error_exit(info);
    };
  }
  ~Decompression() { jpeg_destroy_decompress(&jpeg); }
  Decompression(const Decompression&) = delete;
  Decompression& operator=(const Decompression&) = delete;
};

// False: see `failure`. Nothing in this frame has a destructor, which a jump would pass by.
bool read_header(Decompression& work, std::span<const uint8_t> bytes) {
  if (setjmp(work.escape) != 0) return false;
  jpeg_create_decompress(&work.jpeg);
  jpeg_mem_src(&work.jpeg, bytes.data(), bytes.size());
  jpeg_read_header(&work.jpeg, TRUE);
  return true;
}

// Likewise. `row` has room for one row of pixels.
bool read_planes(Decompression& work, uint8_t* row, uint8_t* planes) {
  if (setjmp(work.escape) != 0) return false;
  work.jpeg.out_color_space = JCS_RGB;
  work.jpeg.dct_method = JDCT_ISLOW;  // exact integers: the other methods differ between machines
  jpeg_start_decompress(&work.jpeg);
  const size_t width = work.jpeg.output_width, pixels = width * work.jpeg.output_height;
  while (work.jpeg.output_scanline < work.jpeg.output_height) {
    uint8_t* out = planes + work.jpeg.output_scanline * width;
    jpeg_read_scanlines(&work.jpeg, &row, 1);
    for (size_t x = 0; x < width; ++x) {
      for (size_t channel = 0; channel < 3; ++channel) out[channel * pixels + x] = row[3 * x + channel];
    }
  }
  jpeg_finish_decompress(&work.jpeg);
  return true;
}

}  // namespace

void decode_jpeg(const std::filesystem::path& file, const ImageShape& shape, std::span<uint8_t> planes) {
  CHECK_EQ(shape.channels, 3);
  CHECK_EQ(planes.size(), shape.elements());
  const std::vector<uint8_t> bytes = read_data_file(file, kLargestFileBytes);
  Decompression work;
  const auto damaged = [&] {
    return DataError(fmt::format("{}: not a whole JPEG image ({}): fetch it again", file.string(), work.failure));
  };
  if (!read_header(work, bytes)) throw damaged();
  if (work.jpeg.image_width != shape.width || work.jpeg.image_height != shape.height) {
    throw DataError(fmt::format("{}: expected an image of {}x{} pixels, found {}x{}", file.string(), shape.width,
                                shape.height, work.jpeg.image_width, work.jpeg.image_height));
  }
  std::vector<uint8_t> row(3 * static_cast<size_t>(shape.width));
  if (!read_planes(work, row.data(), planes.data())) throw damaged();
}

}  // namespace paceline
