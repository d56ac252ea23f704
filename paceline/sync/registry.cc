#include <memory>

#include "paceline/sync/adaptive_k.h"
#include "paceline/sync/asp.h"
#include "paceline/sync/bsp.h"
#include "paceline/sync/drop_worker.h"
#include "paceline/sync/easgd.h"
#include "paceline/sync/k_sync.h"
#include "paceline/sync/policy.h"
#include "paceline/sync/ssp.h"

namespace paceline {
namespace {

template <class T>
std::unique_ptr<Policy> make(const SyncSettings& settings) {
  return std::make_unique<T>(settings);
}

}  // namespace

Registry<PolicyFactory> builtin_policies() {
  Registry<PolicyFactory> policies("synchronisation");
  policies.add("bsp", make<BspPolicy>);
  policies.add("asp", make<AspPolicy>);
  policies.add("ssp", make<SspPolicy>);
  policies.add("easgd", make<EasgdPolicy>);
  policies.add("drop_worker", make<DropWorkerPolicy>);
  policies.add("k_sync", make<KSyncPolicy>);
  policies.add("adaptive_k", make<AdaptiveKPolicy>);
  return policies;
}

}  // namespace paceline
