// For tests: what a parameter server does, as plain loops over the whole model; and random lists of commands.
#pragma once

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "paceline/core/random.h"
#include "paceline/kernels/adam.h"
#include "paceline/kernels/lars.h"
#include "paceline/kernels/progressive.h"
#include "paceline/kernels/rmsprop.h"
#include "paceline/kernels/sgd.h"
#include "paceline/ps/command.h"
#include "paceline/ps/server_update.h"
#include "paceline/ps/shard_map.h"

namespace paceline {

// Element `position` of a list of numbers between -1 and 1, of which there is one for each pair of numbers.
inline float test_value(uint64_t list, uint64_t number, uint64_t position) {
  uint64_t bits = (list * 0x9E3779B97F4A7C15 + number + 1) * 0xBF58476D1CE4E5B9 + position * 0x94D049BB133111EB;
  bits ^= bits >> 29;
  bits *= 0xBF58476D1CE4E5B9;
  return static_cast<float>(static_cast<double>(bits >> 40) * 0x1p-23 - 1);
}

// A gradient (or, for exchange, parameters) that a worker pushes.
inline std::vector<float> test_push(int worker, uint64_t sequence, uint64_t begin, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = test_value(static_cast<uint64_t>(worker), sequence, begin + i);
  return values;
}

inline bool has_push(const Command& command) {
  return command.decision.kind != Decision::Kind::step && command.decision.kind != Decision::Kind::release;
}

// Commands as no policy would mix them, but each possible where it stands.
inline std::vector<Command> random_commands(uint64_t seed, size_t count, const ServerUpdate& update) {
  using Kind = Decision::Kind;
  const RandomKey key(seed);
  std::vector<Command> commands;
  std::vector<uint64_t> sequences(3, 0), kept;
  uint64_t version = 0, draw = 0;
  bool gathered = false;
  while (commands.size() < count) {
    const auto kind = static_cast<Kind>(key.below(draw++, 8));
    const auto worker = key.below(draw++, sequences.size());
    const bool merges = kind == Kind::merge || kind == Kind::merge_mean;
    if (merges && momentum_state(update) < 0) continue;
    if (kind == Kind::merge_mean && kept.empty()) continue;
    if (kind == Kind::step && !gathered) continue;
    Command command = {.index = commands.size() + 1};
    Decision& decision = command.decision;
    decision = {.kind = kind, .worker = static_cast<int>(worker), .version = version};
    decision.samples = 1 + key.below(draw++, 64);
    decision.rate = 0.001 + 0.1 * key.uniform(draw++);
    decision.factor = 0.05 + 0.5 * key.uniform(draw++);
    if (kind == Kind::merge_mean) decision.version = kept[key.below(draw++, kept.size())];
    if (kind == Kind::accumulate) gathered = true;
    if (kind == Kind::step) {
      decision.worker = -1;
      kept.push_back(version);
      if (kept.size() > static_cast<size_t>(update.history)) kept.erase(kept.begin());
      gathered = false;
    }
    if (kind == Kind::step || kind == Kind::apply) decision.version = ++version;
    if (has_push(command)) command.sequence = ++sequences[worker];
    commands.push_back(command);
  }
  return commands;
}

// The whole model on one server that never dies.
class PlainServer {
 public:
  PlainServer(std::vector<NamedLength> tensors, ServerUpdate update, std::vector<float> initial)
      : tensors_(std::move(tensors)), update_(std::move(update)), weights(std::move(initial)) {
    states.assign(state_names(update_).size(), std::vector<float>(weights.size(), 0.0f));
    rates_.assign(tensors_.size(), 0);
  }

  void execute(const Command& command) {
    using Kind = Decision::Kind;
    const Decision& decision = command.decision;
    const auto b = static_cast<double>(decision.samples);
    std::vector<float> g;
    if (has_push(command)) g = test_push(decision.worker, command.sequence, 0, weights.size());
    if (decision.kind == Kind::accumulate) accumulate(g, b);
    if (decision.kind == Kind::apply) step(g, decision.rate);
    if (decision.kind == Kind::merge) {
      for_elements([&](size_t i, double scale) { states[0][i] += static_cast<float>(decision.factor * scale) * g[i]; });
    }
    if (decision.kind == Kind::merge_mean) {
      auto& [mean, samples] = history_.at(decision.version);
      samples += b;
      for_elements([&](size_t i, double scale) {
        const float d = static_cast<float>(b / samples) * (g[i] - mean[i]);
        mean[i] += d;
        states[0][i] += static_cast<float>(decision.factor * scale) * d;
      });
    }
    if (decision.kind == Kind::exchange) {
      for (size_t i = 0; i < g.size(); ++i) {
        const float d = static_cast<float>(decision.factor) * (g[i] - weights[i]);
        weights[i] += d;
        g[i] -= d;
      }
      exchanged[decision.worker] = g;
    }
    if (decision.kind == Kind::step) {
      step(mean_, decision.rate);
      history_[decision.version - 1] = {mean_, samples};
      samples = samples_squared = 0;
    }
  }

  std::vector<float> ahead() const {
    std::vector<float> ahead = weights;
    for (size_t i = 0; i < ahead.size(); ++i) ahead[i] = weights[i] - static_cast<float>(rate_) * states[0][i];
    return ahead;
  }

 private:
  void accumulate(const std::vector<float>& g, double b) {
    if (samples == 0) mean_ = g, spread = 0;
    const bool first = samples == 0;
    samples += b;
    samples_squared += b * b;
    mean_norm2 = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      const float before = g[i] - mean_[i];
      if (!first) mean_[i] += static_cast<float>(b / samples) * before;
      spread += b * before * (g[i] - mean_[i]);
      mean_norm2 += static_cast<double>(mean_[i]) * mean_[i];
    }
  }

  // body(element, what a late gradient is multiplied by beside its factor)
  template <class Body>
  void for_elements(const Body& body) const {
    size_t i = 0;
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
      const double scale = update_.optimizer == "lars"                                   ? rates_[tensor]
                           : update_.optimizer == "adam" || update_.optimizer == "adamw" ? 1 - update_.beta1
                                                                                         : 1;
      for (const size_t end = i + tensors_[tensor].count; i < end; ++i) body(i, scale);
    }
  }

  void step(const std::vector<float>& gradient, double rate) {
    rate_ = rate;
    ++steps_;
    size_t at = 0;
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
      const size_t count = tensors_[tensor].count;
      const double decay = tensors_[tensor].decayed ? update_.weight_decay : 0;
      std::vector<float> none(count, 0.0f);
      float* const w = weights.data() + at;
      const float* const g = gradient.data() + at;
      float* const first = states.empty() ? none.data() : states[0].data() + at;
      float* const second = states.size() < 2 ? none.data() : states[1].data() + at;
      const auto small_rate = static_cast<float>(rate), momentum = static_cast<float>(update_.momentum);
      if (update_.optimizer == "sgd") {
        sgd_update_reference(w, g, first, count,
                             {small_rate, momentum, static_cast<float>(decay), 1, update_.nesterov});
      } else if (update_.optimizer == "progressive") {
        progressive_update_reference(w, g, first, count, {small_rate, momentum, static_cast<float>(decay)});
      } else if (update_.optimizer == "rmsprop") {
        rmsprop_update_reference(w, g, first, second, count,
                                 {rate, update_.alpha, update_.epsilon, update_.momentum, decay, 1});
      } else if (update_.optimizer == "lars") {
        const SquaredNorms norms = squared_norms(w, g, count);
        double local = rate;
        if (tensors_[tensor].decayed) {
          local =
              lars_rate(rate, update_.eta, update_.epsilon, decay, std::sqrt(norms.weights), std::sqrt(norms.gradient));
        }
        rates_[tensor] = static_cast<float>(local);
        lars_update_reference(w, g, first, count, {rates_[tensor], momentum, static_cast<float>(decay), 1});
      } else {
        adam_update_reference(w, g, first, second, count,
                              {rate, update_.beta1, update_.beta2, update_.epsilon, decay, update_.optimizer == "adamw",
                               1 - std::pow(update_.beta1, steps_), 1 - std::pow(update_.beta2, steps_), 1});
      }
      at += count;
    }
  }

  std::vector<NamedLength> tensors_;
  ServerUpdate update_;
  std::vector<float> mean_, rates_;
  std::map<uint64_t, std::pair<std::vector<float>, double>> history_;
  double rate_ = 0;
  int steps_ = 0;

 public:
  std::vector<float> weights;
  std::vector<std::vector<float>> states;
  std::map<int, std::vector<float>> exchanged;
  double samples = 0, samples_squared = 0, mean_norm2 = 0, spread = 0;
};

}  // namespace paceline
