#include "paceline/collectives/hybrid.h"

#include "paceline/collectives/group_text.h"
#include "paceline/collectives/platforms.h"

namespace paceline {
namespace {

std::filesystem::path file_for(const Fingerprint& fingerprint, const HybridOptions& options) {
  const std::string name = profile_name(fingerprint.engine, fingerprint.layout);
  if (!options.profile_folder.empty()) return options.profile_folder / name;
  const auto folder = profile_folder(process_environment());
  return folder ? *folder / name : std::filesystem::path();
}

// Not being able to keep a profile is no reason to stop: the next run measures again.
void keep(const PlanDecision& decision, const Warn& warn) {
  if (decision.profile_file.empty())
    return warn("the profile is not kept: neither PACELINE_PROFILE_DIR nor HOME says where");
  try {
    store_profile(decision.profile_file, decision.profile);
  } catch (const Error& error) {
    warn(fmt::format("the profile is not kept: {}", error.what()));
  }
}

}  // namespace

Hybrid::Hybrid(Group& group, Plan plan) : AllReduce(group), plan_(std::move(plan)) {
  const Cluster cluster = cluster_of(group);
  const std::vector<std::string> names = plan_.algorithms();
  for (const std::string& name : names)
    algorithms_.push_back(all_reduce_algorithm(name).make(group, cluster, plan_.grid));
  for (const auto& [dtype, steps] : plan_.steps)
    for (const PlanStep& step : steps) {
      const auto place = std::ranges::find(names, step.algorithm) - names.begin();
      steps_[static_cast<size_t>(dtype)].push_back({step.up_to_bytes, algorithms_[place].get()});
    }
}

PlanDecision decide_plan(Group& group, const HybridOptions& options) {
  const Cluster cluster = cluster_of(group);
  const Grid grid = options.grid.value_or(cluster.default_grid());
  const Fingerprint fingerprint = fingerprint_of(group, grid);
  PlanDecision decision;
  decision.profile.fingerprint = fingerprint;

  uint8_t measure = 0;
  if (group.rank() == 0 && group.size() > 1) {  // one rank has nothing to choose from
    decision.profile_file = file_for(fingerprint, options);
    std::optional<Profile> stored;
    if (options.measure != HybridOptions::Measure::always)
      stored = load_profile(
          decision.profile_file, [&](const Fingerprint& found) { return found == fingerprint; }, options.warn);
    if (stored) decision.profile = *stored;
    measure = !stored && options.measure != HybridOptions::Measure::never ? 1 : 0;
  }
  group.broadcast({&measure, 1, DType::u8}, 0);
  decision.measured_now = measure != 0;
  if (decision.measured_now) {
    decision.profile = measure_profile(group, grid, options.profile);
    if (group.rank() == 0) keep(decision, options.warn);
  }
  const std::string plan = group.rank() == 0 ? print_plan(make_plan(cluster, grid, &decision.profile)) : "";
  decision.plan = parse_plan(broadcast_text(group, plan, 0));
  return decision;
}

std::unique_ptr<Hybrid> make_hybrid(Group& group, const HybridOptions& options) {
  return std::make_unique<Hybrid>(group, decide_plan(group, options).plan);
}

}  // namespace paceline
