// For targets: one-member gzip files, and their contents.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::fuzz {

inline std::vector<uint8_t> gzip(std::span<const uint8_t> plain) {
  static z_stream stream = [] {
    z_stream made{};
    deflateInit2(&made, 6, Z_DEFLATED, 16 + 9, 1, Z_DEFAULT_STRATEGY);  // a small window: inputs are small
    return made;
  }();
  deflateReset(&stream);
  std::vector<uint8_t> compressed(deflateBound(&stream, plain.size()) + 64);
  stream.next_in = const_cast<uint8_t*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = compressed.data();
  stream.avail_out = static_cast<uInt>(compressed.size());
  deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  return compressed;
}

// What can be had of it, up to `most` bytes; nothing where it is no gzip file.
inline std::vector<uint8_t> gunzip(std::span<const uint8_t> compressed, size_t most) {
  z_stream stream{};
  inflateInit2(&stream, 16 + MAX_WBITS);
  std::vector<uint8_t> plain(most);
  stream.next_in = const_cast<uint8_t*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = plain.data();
  stream.avail_out = static_cast<uInt>(plain.size());
  inflate(&stream, Z_FINISH);
  plain.resize(stream.total_out);
  inflateEnd(&stream);
  return plain;
}

}  // namespace paceline::fuzz
