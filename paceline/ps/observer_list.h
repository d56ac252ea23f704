// ObserverList: who looks at a run, having said hello and not that they leave. Each is also a file, so that a server
// that is started again knows whom to wait for at the end: they call again, but may take longer than the run.
#pragma once

#include <filesystem>
#include <set>

namespace paceline {

class ObserverList {
 public:
  // With those that a process before this one has left there. An empty path: nothing is kept.
  explicit ObserverList(std::filesystem::path folder);

  void insert(int observer);
  void erase(int observer);
  bool empty() const { return observers_.empty(); }

 private:
  std::filesystem::path folder_;
  std::set<int> observers_;
};

}  // namespace paceline
