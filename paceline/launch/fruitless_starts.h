// FruitlessStarts: whether starting a process again still makes sense, or fails in the same way each time. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "paceline/launch/child_process.h"

namespace paceline {

class FruitlessStarts {
 public:
  // A process that ends by itself, with the same code and last words and no progress in between, would do so again. One
  // that is killed may have had bad luck, but not so often.
  static constexpr int kMostExits = 2;
  static constexpr int kMostKills = 10;

  // Process `name` has failed, and said `last_words`. `progress`: what the run has come to, a number that only grows.
  // Returns whether it failed in this way, without progress, as often as is allowed.
  bool add(const std::string& name, const Ending& ending, const std::string& last_words, uint64_t progress) {
    Failure failure = {ending.text() + ": " + last_words, progress, 0};
    Failure& before = failures_[name];
    if (before.times > 0 && before.what == failure.what && before.progress == progress) failure.times = before.times;
    ++failure.times;
    before = failure;
    return failure.times >= (ending.signal != 0 ? kMostKills : kMostExits);
  }

 private:
  struct Failure {
    std::string what;
    uint64_t progress = 0;
    int times = 0;
  };
  std::map<std::string, Failure> failures_;  // the last of each process
};

}  // namespace paceline
