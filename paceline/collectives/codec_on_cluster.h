// Whether a codec pays between these ranks: codecs/codec_cost.h asked about the slowest link that they use.
#pragma once

#include "paceline/codecs/codec_cost.h"
#include "paceline/collectives/cost_model.h"

namespace paceline {

// `bytes`: of f32, that all ranks sum. `codec_s_per_byte`: measured_seconds_per_byte().
CodecVerdict judge_codec_on(const Cluster& cluster, const Codec& codec, double codec_s_per_byte, double bytes);

}  // namespace paceline
