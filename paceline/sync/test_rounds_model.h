// For tests: what a model with rounds answers, found by reading the whole past.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "paceline/sync/policy.h"
#include "paceline/sync/test_history.h"

namespace paceline {

struct RoundsModel {
  std::string merge;
  // Gradients that are enough though others are still computing. Asked when there are some.
  std::function<int(const SyncHistory&, const SyncSettings&, int party)> enough;
  // Whether the noise that is reported in the last record makes it time for a step.
  std::function<bool(const SyncHistory&, const SyncSettings&, int party)> noise_is_enough =
      [](const SyncHistory&, const SyncSettings&, int) { return false; };

  Decision late(const SyncHistory& past, const SyncSettings& settings) const {
    const SyncEvent& push = past.event();
    const double staleness = static_cast<double>(past.version() - push.version);
    const double decay = std::pow(settings.momentum, staleness);
    if (merge == "zhang") {
      const double gradients = static_cast<double>(past.accumulated(push.version).size());
      return gradient(Decision::Kind::merge, push.worker, push.version, push.samples, decay / gradients);
    }
    if (merge == "mean" && staleness <= settings.history)
      return gradient(Decision::Kind::merge_mean, push.worker, push.version, push.samples, decay);
    if (merge == "additive") {
      const std::vector<int> live = past.live();
      double known_sum = 0, known = 0;
      for (const int id : live)
        if (const uint64_t samples = past.latest_samples(id); samples > 0) {
          known_sum += static_cast<double>(samples);
          ++known;
        }
      double all = 0;
      for (const int id : live) {
        const uint64_t samples = past.latest_samples(id);
        all += samples > 0 ? static_cast<double>(samples) : known_sum / known;
      }
      return gradient(Decision::Kind::merge, push.worker, push.version, push.samples,
                      decay * static_cast<double>(push.samples) / all);
    }
    return gradient(Decision::Kind::drop, push.worker, push.version, push.samples);
  }

  void operator()(SyncHistory& past, const SyncSettings& settings) const {
    const SyncEvent event = past.event();
    const uint64_t newest = past.version();
    if (event.kind == SyncEvent::Kind::tick) return;
    if (event.kind == SyncEvent::Kind::join) return past.answer(release_of(event.worker, newest));
    if (event.kind == SyncEvent::Kind::push) {
      if (event.version == newest) {
        past.answer(gradient(Decision::Kind::accumulate, event.worker, newest, event.samples));
      } else {
        past.answer(late(past, settings));
        past.answer(release_of(event.worker, newest));
      }
    }

    const std::vector<SyncEvent> fresh = past.accumulated(newest);
    if (fresh.empty()) return;
    const std::vector<int> waiting = past.waiting();
    const int live = static_cast<int>(past.live().size());
    const int to_come = past.to_come(settings.workers);
    bool is_time = false;
    if (event.kind == SyncEvent::Kind::noise) {
      is_time = noise_is_enough(past, settings, live + to_come);
    } else {
      const bool all_wait = to_come == 0 && static_cast<int>(waiting.size()) == live;
      is_time = all_wait || static_cast<int>(fresh.size()) >= enough(past, settings, live + to_come);
    }
    if (!is_time) return;

    uint64_t samples = 0;
    double weighted_rate = 0;
    for (const SyncEvent& push : fresh) {
      samples += push.samples;
      weighted_rate += static_cast<double>(push.samples) * push.rate;
    }
    past.answer(step_to(newest + 1, samples, weighted_rate / static_cast<double>(samples)));
    for (const int id : waiting) past.answer(release_of(id, newest + 1));
  }
};

}  // namespace paceline
