// The codecs that Paceline brings; each in the file of its name. Throw UsageError for options that make no sense.
#pragma once

#include <memory>

#include "paceline/codecs/codec.h"

namespace paceline {

std::unique_ptr<Codec> make_none_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_fp16_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_bf16_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_int8_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_onebit_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_topk_codec(const CodecOptions& options);
std::unique_ptr<Codec> make_threshold_codec(const CodecOptions& options);

}  // namespace paceline
