// Checkpoints of a group: rank 0 writes and reads the files; everything that the others have of their own travels.
//
// Beside the weights (with statistics averaged over the ranks) and the optimizer, which are the same on all ranks, a
// checkpoint of several ranks holds what differs between them: statistics of batch normalisation and what a lossy codec
// still owes; and with gradients that are applied late the sums that are under way, which are the same on all. As many
// ranks go on with exactly theirs; another number goes on with the averages, and shares the debts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "paceline/comm/group.h"
#include "paceline/gradients/reducer.h"
#include "paceline/gradients/stale_sum.h"
#include "paceline/gradients/statistics_share.h"
#include "paceline/train/checkpoint.h"
#include "paceline/train/evaluation_statistics.h"

namespace paceline {

class GroupCheckpoint {
 public:
  // `share`: of this rank in the running statistics. `stale`: null where gradients are not applied late.
  GroupCheckpoint(CheckpointStore& store, Group& group, Model& model, Optimizer& optimizer, Reducer& reducer,
                  StatisticsShare& share, StaleSum* stale)
      : store_(store),
        group_(group),
        model_(model),
        optimizer_(optimizer),
        reducer_(reducer),
        share_(share),
        stale_(stale) {}

  // Every rank calls these. Rank 0 gets the folder's name; `keeps_files` is rank 0's wish to write at all.
  // `statistics` makes what the saved weights are to have, for as long as the result lives. `texts` are rank 0's.
  std::optional<CheckpointRef> write(const RunState& state, bool keeps_files,
                                     const std::function<std::unique_ptr<EvaluationStatistics>()>& statistics,
                                     const RunTexts& texts);

  struct Resumed {
    RunState state;
    int ranks_before = 0;         // that wrote it
    uint64_t sums_under_way = 0;  // of so many steps; loaded only where as many steps' are applied late
  };
  // Afterwards model, optimizer and state are the same on every rank: those of the checkpoint that rank 0 goes on
  // `from`, or without one rank 0's own and `first`.
  Resumed resume(const RunState& first, const std::optional<CheckpointRef>& from);

 private:
  NamedTensors own_tensors() const;
  void distribute(std::vector<NamedTensors> ranks, int ranks_before);
  void resume_sums(const SumsUnderWay& saved, uint64_t steps);

  CheckpointStore& store_;
  Group& group_;
  Model& model_;
  Optimizer& optimizer_;
  Reducer& reducer_;
  StatisticsShare& share_;
  StaleSum* stale_;
};

}  // namespace paceline
