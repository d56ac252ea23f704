#include "paceline/train/group_checkpoint.h"

#include "paceline/collectives/group_text.h"
#include "paceline/gradients/batch_statistics.h"
#include "paceline/models/layers.h"
#include "paceline/models/state.h"
#include "paceline/train/rank_tensors.h"

namespace paceline {
namespace {

constexpr std::string_view kStatistics = "statistics.";
constexpr std::string_view kCorrection = "correction.";  // BatchNorm2d::correction(), by layer
constexpr std::string_view kShare = "share";             // StatisticsShare::weight()

bool is_debt(const std::string& name) { return name.starts_with("residual.") || name.starts_with("momentum."); }

template <class Visit>
void each_batch_norm(Model& model, const Visit& visit) {
  for (const auto& named : model.named_modules())
    if (auto* layer = dynamic_cast<BatchNorm2d*>(named.value().get()))
      visit(std::string(kCorrection) + named.key(), *layer);
}

NamedTensors debts_of(const NamedTensors& tensors) {
  NamedTensors debts;
  for (const auto& [name, tensor] : tensors)
    if (is_debt(name)) debts.emplace(name, tensor);
  return debts;
}

}  // namespace

// The statistics are the live tensors; the rest are copies.
NamedTensors GroupCheckpoint::own_tensors() const {
  NamedTensors own;
  if (group_.size() == 1) return own;
  for (const auto& [name, tensor] : batch_statistics(model_)) own.emplace(std::string(kStatistics) + name, tensor);
  each_batch_norm(model_, [&](const std::string& name, const BatchNorm2d& layer) {
    own.emplace(name, torch::tensor(layer.correction(), torch::kFloat64));
  });
  own.emplace(kShare, torch::tensor(share_.weight(), torch::kFloat64));
  own.merge(reducer_.state());
  return own;
}

std::optional<CheckpointRef> GroupCheckpoint::write(
    const RunState& state, bool keeps_files, const std::function<std::unique_ptr<EvaluationStatistics>()>& statistics,
    const RunTexts& texts) {
  const std::vector<NamedTensors> all = gather_on_first(group_, own_tensors());
  const auto averaged = statistics();
  std::optional<CheckpointRef> written;
  if (keeps_files) {
    const AtWork at_work(group_.monitor(), Chore::checkpoint);
    written = store_.write(model_, optimizer_, state, all, stale_ ? stale_->state() : NamedTensors(), texts);
  }
  group_.barrier();
  return written;
}

GroupCheckpoint::Resumed GroupCheckpoint::resume(const RunState& first, const std::optional<CheckpointRef>& from) {
  Resumed resumed = {.state = first};
  std::vector<NamedTensors> ranks;
  SumsUnderWay sums;
  if (group_.rank() == 0 && from) {
    const AtWork at_work(group_.monitor(), Chore::checkpoint);
    resumed.state = load_checkpoint(*from, model_, optimizer_);
    ranks = load_rank_tensors(*from);
    sums = load_sums_under_way(*from);
  }
  const nlohmann::json told = nlohmann::json::parse(broadcast_text(
      group_, nlohmann::json{{"state", resumed.state}, {"ranks", ranks.size()}, {"sums", sums.steps}}.dump(), 0));
  resumed.state = told.at("state").get<RunState>();
  resumed.ranks_before = std::max(told.at("ranks").get<int>(), 1);
  resumed.sums_under_way = told.at("sums").get<uint64_t>();
  NamedTensors shared = state_of(model_);
  broadcast_from_first(group_, shared);
  // Loaded, not copied into what is there: an optimizer of several stages (hybrid) has other tensors in each.
  const NamedTensors optimizer_state = tensors_of_first(group_, optimizer_.state());
  if (group_.rank() != 0) optimizer_.load_state(optimizer_state, "the optimizer of rank 0");
  if (told.at("ranks") > 0) distribute(std::move(ranks), resumed.ranks_before);
  resume_sums(sums, resumed.sums_under_way);
  return resumed;
}

void GroupCheckpoint::resume_sums(const SumsUnderWay& saved, uint64_t steps) {
  if (steps == 0 || stale_ == nullptr || steps > stale_->staleness()) return;
  NamedTensors live = stale_->resume(steps);
  if (group_.rank() == 0) copy_state(saved.tensors, live, "the checkpoint's sums under way");
  broadcast_from_first(group_, live);
}

void GroupCheckpoint::distribute(std::vector<NamedTensors> ranks, int ranks_before) {
  if (group_.size() == 1) return reducer_.load_state(spread_evenly(ranks, 1).front());
  NamedTensors own = own_tensors();
  if (ranks_before != group_.size()) {  // averaged statistics came with the weights
    own = debts_of(own);
    for (NamedTensors& tensors : ranks) tensors = debts_of(tensors);
    if (group_.rank() == 0) ranks = spread_evenly(ranks, group_.size());
  }
  for (NamedTensors& tensors : ranks)  // a codec that the run did not have before owes nothing yet
    for (const auto& [name, tensor] : own) tensors.try_emplace(name, torch::zeros_like(tensor, torch::kCPU));
  scatter_from_first(group_, ranks, own);
  reducer_.load_state(own);
  each_batch_norm(model_, [&](const std::string& name, BatchNorm2d& layer) {
    if (const auto found = own.find(name); found != own.end()) layer.set_correction(found->second.item<double>());
  });
  if (const auto found = own.find(std::string(kShare)); found != own.end())
    share_.set_weight(found->second.item<double>());
}

}  // namespace paceline
