#include "paceline/collectives/codec_on_cluster.h"

namespace paceline {

CodecVerdict judge_codec_on(const Cluster& cluster, const Codec& codec, double codec_s_per_byte, double bytes) {
  const bool between_hosts = cluster.hosts > 1;
  const Link& link = between_hosts ? cluster.network : cluster.node;
  const int sharing = between_hosts ? cluster.ranks_per_host : 1;  // a host's link
  return judge_codec(codec, {.codec_s_per_byte = codec_s_per_byte,
                             .link_bytes_per_s = 1 / (link.beta_s_per_byte * sharing),
                             .ranks = cluster.ranks,
                             .bytes = bytes});
}

}  // namespace paceline
