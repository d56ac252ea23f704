#include "paceline/codecs/builtin.h"

namespace paceline {

Registry<CodecFactory> builtin_codecs() {
  Registry<CodecFactory> codecs("codec");
  codecs.add("none", make_none_codec);
  codecs.add("fp16", make_fp16_codec);
  codecs.add("bf16", make_bf16_codec);
  codecs.add("int8", make_int8_codec);
  codecs.add("onebit", make_onebit_codec);
  codecs.add("topk", make_topk_codec);
  codecs.add("threshold", make_threshold_codec);
  return codecs;
}

}  // namespace paceline
