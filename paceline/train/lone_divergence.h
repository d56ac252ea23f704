// LoneDivergence: a divergence that one rank has found by itself (its own loss, say), until all ranks have heard of it.
// Then all of them end after the same step, with the same error.
#pragma once

#include <string>

#include "paceline/comm/group.h"

namespace paceline {

class LoneDivergence {
 public:
  explicit LoneDivergence(Group& group) : group_(group) {}

  // What this rank has found; the first finding counts.
  void note(std::string text) {
    if (text_.empty()) text_ = std::move(text);
  }
  bool is_noted() const { return !text_.empty(); }

  // Every rank calls these. tell() throws the DivergenceError of fail() on every rank where any rank has noted one.
  void tell();
  [[noreturn]] void fail();

 private:
  Group& group_;
  std::string text_;
};

}  // namespace paceline
