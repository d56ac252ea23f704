#include "paceline/train/group_trace.h"

#include "paceline/collectives/group_text.h"
#include "paceline/core/file.h"
#include "paceline/metrics/timeline_bytes.h"

namespace paceline {

void write_group_trace(Timeline& timeline, Group& group, const std::filesystem::path& path) {
  const RankTimeline mine = {.rank = group.rank(),
                             .host = host_name(),
                             .wall_offset_ns = measure_wall_offset_ns(),
                             .events = timeline.take(),
                             .dropped = timeline.dropped()};
  std::vector<RankTimeline> ranks;
  for (const std::string& text : gather_texts(group, to_bytes(mine))) ranks.push_back(timeline_from(text));
  if (group.rank() == 0) replace_file(path, chrome_trace(ranks));
}

}  // namespace paceline
