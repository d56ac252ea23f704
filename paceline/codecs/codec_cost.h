// What packing costs and whether it pays. Measuring is one function, the verdict another, which is pure.
#pragma once

#include <cstddef>
#include <string>

#include "paceline/codecs/codec.h"

namespace paceline {

// Seconds to encode a byte of f32 (keeping what is lost, where the codec is lossy) and to decode it again, for arrays
// of `count` elements, on this core. Takes some milliseconds. REQUIRES: count > 0
double measured_seconds_per_byte(const Codec& codec, size_t count);

struct CodecSetting {
  double codec_s_per_byte = 0;  // as measured above
  double link_bytes_per_s = 0;  // of one rank
  int ranks = 1;
  double bytes = 0;  // of f32, to be summed over the ranks
};

struct CodecVerdict {
  bool pays = false;
  double plain_s = 0;   // to send the bytes as they are
  double packed_s = 0;  // to pack, send and unpack them
  std::string text;     // "int8 pays on this link: 3.9x fewer bytes save 12 ms of 16, packing costs 2.0 ms"
};

// Latencies and additions are left out: they are about the same with and without a codec.
CodecVerdict judge_codec(const Codec& codec, const CodecSetting& setting);

}  // namespace paceline
