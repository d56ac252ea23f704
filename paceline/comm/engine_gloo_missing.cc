// Stands in for engine_gloo.cc in a build with PACELINE_GLOO=OFF.
#include "paceline/comm/engine_gloo.h"

namespace paceline {

std::unique_ptr<Group> make_gloo_group(GroupIdentity, std::shared_ptr<Monitor>, const std::string&,
                                       const std::vector<int>&) {
  throw UsageError("this build has no gloo engine; build with -DPACELINE_GLOO=ON, or choose another engine");
}

}  // namespace paceline
