// LaunchVerdict: of several ranks that failed, which one is the root, and what to tell about it. Pure.
//
// The first to fail counts; but a rank that exited because another one failed (ExitCode::peer) is a consequence when
// any rank failed otherwise, whichever the launcher saw first.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/launch/child_process.h"

namespace paceline {

class LaunchVerdict {
 public:
  void add_error_line(int rank, std::string_view line);  // of standard error: the last ones are kept
  void add_failure(int rank, const Ending& ending);      // in the order of time

  bool empty() const { return failures_.empty(); }
  int exit_code() const;  // of the root; 0: there is none
  // REQUIRES of these: !empty()
  int rank() const { return root().rank; }
  const Ending& ending() const { return root().ending; }
  // "rank 2 on host b exited with code 3; the other ranks were ended", and its last lines. `who` is its subject.
  std::string text(const std::string& who, bool others_were_ended) const;

 private:
  struct Failure {
    int rank;
    Ending ending;
  };
  const Failure& root() const;

  std::vector<Failure> failures_;
  std::map<int, std::deque<std::string>> last_lines_;
};

}  // namespace paceline
