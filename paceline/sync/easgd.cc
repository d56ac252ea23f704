#include "paceline/sync/easgd.h"

namespace paceline {

EasgdPolicy::EasgdPolicy(const SyncSettings& settings) : TrackedPolicy("easgd", settings) {}

void EasgdPolicy::joined(const SyncEvent& join, Answer& answer) { release(join.worker, join.time_ns, answer); }

void EasgdPolicy::left(const SyncEvent& /*leave*/, Answer& /*answer*/) {}

void EasgdPolicy::pushed(const SyncEvent& push, Answer& answer) {
  answer.push_back({.kind = Decision::Kind::exchange,
                    .worker = push.worker,
                    .version = push.version,
                    .samples = push.samples,
                    .factor = settings().elasticity / live()});
  release(push.worker, push.time_ns, answer);
}

}  // namespace paceline
