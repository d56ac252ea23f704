#include "paceline/ps/chunk_work.h"

#include <algorithm>
#include <cstring>

#include "paceline/core/check.h"
#include "paceline/kernels/elastic.h"
#include "paceline/kernels/progressive.h"
#include "paceline/kernels/running_mean.h"
#include "paceline/kernels/sgd.h"

namespace paceline {

using Kind = Decision::Kind;

std::vector<UpdateRun> update_runs(const ShardMap& map, int shard, const ServerUpdate& update) {
  const bool by_tensor = update.optimizer == "lars";
  std::vector<UpdateRun> runs;
  for (const ShardMap::Piece& piece : map.pieces(shard)) {
    const bool decayed = map.tensors()[piece.tensor].decayed && (by_tensor || update.weight_decay != 0);
    if (!by_tensor && !runs.empty() && runs.back().decayed == decayed) {
      runs.back().count += piece.count;
    } else {
      runs.push_back({.begin = piece.offset, .count = piece.count, .tensor = piece.tensor, .decayed = decayed});
    }
  }
  return runs;
}

ChunkWork::ChunkWork(const ShardFile& file, const ServerUpdate& update, std::span<const UpdateRun> runs)
    : file_(file),
      update_(update),
      runs_(runs),
      command_(command_from(file.next().command)),
      by_tensor_(update.optimizer == "lars") {
  const ShardNumbers &now = file.now(), &next = file.next();
  const Decision& decision = command_.decision;
  const auto b = static_cast<double>(decision.samples);
  state_count_ = state_names(update).size();
  CHECK_LE(state_count_, states_.size());
  for (size_t i = 0; i < state_count_; ++i) states_[i] = file.state(static_cast<int>(i));
  if (const int state = momentum_state(update); state >= 0) momentum_ = file.state(state);
  merged_ = decision.factor * merge_scale(update);
  if (next.place >= 0) gradient_ = parameters_ = file.staged(static_cast<int>(next.place));

  switch (decision.kind) {
    case Kind::accumulate:
      mean_ = file.mean(now.mean);
      first_ = now.samples == 0;
      share_ = static_cast<float>(b / next.samples);
      if (!first_) change(mean_);  // the first one is copied: doing so again is no harm
      break;
    case Kind::step:
    case Kind::apply:
      if (decision.kind == Kind::step) gradient_ = file.mean(now.mean);
      rule_.emplace(update, decision.rate, next.steps);
      change(file.weights());
      for (size_t i = 0; i < state_count_; ++i) change(states_[i]);
      break;
    case Kind::merge:
      change(momentum_);
      break;
    case Kind::merge_mean: {
      const auto found = std::ranges::find_if(next.means, [&](const ShardNumbers::Mean& mean) {
        return mean.version == decision.version && mean.samples > 0;
      });
      CHECK_TRUE(found != std::end(next.means), "no mean of version {}", decision.version);
      mean_ = file.mean(static_cast<uint64_t>(found - std::begin(next.means)));
      share_ = static_cast<float>(b / found->samples);
      change(momentum_);
      change(mean_);
      break;
    }
    case Kind::exchange:
      change(file.weights());
      change(parameters_);
      break;
    case Kind::drop:
    case Kind::release:
      idle_ = true;
      break;
  }
}

template <class Body>
void ChunkWork::for_runs(uint64_t begin, uint64_t end, const Body& body) const {
  auto run = std::ranges::upper_bound(runs_, begin, {}, &UpdateRun::begin) - 1;
  for (; run != runs_.end() && run->begin < end; ++run) {
    const uint64_t from = std::max(begin, run->begin), to = std::min(end, run->begin + run->count);
    body(*run, from, to - from);
  }
}

void ChunkWork::operator()(uint64_t chunk) const {
  const uint64_t begin = chunk * kChunk, count = std::min(kChunk, file_.count() - begin);
  switch (command_.decision.kind) {
    case Kind::accumulate:
      return accumulate(begin, count, file_.marks()[chunk]);
    case Kind::step:
    case Kind::apply:
      return step(begin, count);
    case Kind::merge:
      if (!by_tensor_) {
        return merge_late(momentum_ + begin, gradient_ + begin, count, static_cast<float>(merged_));
      }
      return for_runs(begin, begin + count, [&](const UpdateRun& run, uint64_t from, uint64_t length) {
        merge_late(momentum_ + from, gradient_ + from, length,
                   static_cast<float>(merged_ * file_.rates_next()[run.tensor]));
      });
    case Kind::merge_mean:
      if (!by_tensor_) {
        return running_mean_add_late(mean_ + begin, momentum_ + begin, gradient_ + begin, count, share_,
                                     static_cast<float>(merged_));
      }
      return for_runs(begin, begin + count, [&](const UpdateRun& run, uint64_t from, uint64_t length) {
        running_mean_add_late(mean_ + from, momentum_ + from, gradient_ + from, length, share_,
                              static_cast<float>(merged_ * file_.rates_next()[run.tensor]));
      });
    case Kind::exchange:
      return elastic_exchange(file_.weights() + begin, parameters_ + begin, count,
                              static_cast<float>(command_.decision.factor));
    case Kind::drop:
    case Kind::release:
      return;
  }
}

void ChunkWork::accumulate(uint64_t begin, uint64_t count, ChunkMark& mark) const {
  float* const mean = mean_ + begin;
  const float* const gradient = gradient_ + begin;
  if (first_) {
    std::memcpy(mean, gradient, count * sizeof(float));
    mark.mean_norm2 = update_.noise ? sum_of_squares(mean, count) : 0;
    mark.spread = 0;
  } else if (update_.noise) {
    const MeanNoise noise = running_mean_add_noise(mean, gradient, count, share_);
    mark.mean_norm2 = noise.mean_norm2;
    mark.spread += static_cast<double>(command_.decision.samples) * noise.spread;
  } else {
    running_mean_add(mean, gradient, count, share_);
  }
}

void ChunkWork::step(uint64_t begin, uint64_t count) const {
  for_runs(begin, begin + count, [&](const UpdateRun& run, uint64_t from, uint64_t length) {
    std::array<float*, 2> states = states_;
    for (size_t i = 0; i < state_count_; ++i) states[i] += from;
    const float local_rate = by_tensor_ ? file_.rates_next()[run.tensor] : 0;
    (*rule_)(file_.weights() + from, gradient_ + from, {states.data(), state_count_}, length, run.decayed, local_rate);
  });
}

}  // namespace paceline
