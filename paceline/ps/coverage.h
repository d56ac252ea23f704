// Coverage: which elements of a gradient are there, while its segments come in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace paceline {

class Coverage {
 public:
  // False, and nothing has changed, where some of [begin, begin + count) is there already.
  bool add(uint64_t begin, uint64_t count) {
    if (count == 0) return true;
    const uint64_t end = begin + count;
    auto next = runs_.lower_bound(begin);
    if (next != runs_.end() && next->first < end) return false;
    if (next != runs_.begin()) {
      const auto before = std::prev(next);
      if (before->second > begin) return false;
      if (before->second == begin) {
        before->second = end;
        join(before, next);
        covered_ += count;
        return true;
      }
    }
    join(runs_.emplace_hint(next, begin, end), next);
    covered_ += count;
    return true;
  }

  uint64_t covered() const { return covered_; }  // elements
  size_t runs() const { return runs_.size(); }   // what memory depends on

  // What of [begin, end) is missing, as (begin, count).
  std::vector<std::pair<uint64_t, uint64_t>> missing(uint64_t begin, uint64_t end) const {
    std::vector<std::pair<uint64_t, uint64_t>> gaps;
    auto run = runs_.upper_bound(begin);
    if (run != runs_.begin() && std::prev(run)->second > begin) begin = std::prev(run)->second;
    for (; begin < end && run != runs_.end() && run->first < end; ++run) {
      if (run->first > begin) gaps.emplace_back(begin, run->first - begin);
      begin = run->second;
    }
    if (begin < end) gaps.emplace_back(begin, end - begin);
    return gaps;
  }

  void clear() {
    runs_.clear();
    covered_ = 0;
  }

 private:
  using Runs = std::map<uint64_t, uint64_t>;  // begin -> end
  void join(Runs::iterator run, Runs::iterator next) {
    if (next == runs_.end() || next->first != run->second) return;
    run->second = next->second;
    runs_.erase(next);
  }

  Runs runs_;
  uint64_t covered_ = 0;
};

}  // namespace paceline
