// NewsWindow: what workers have learnt since the last line of metrics, from news that each of them sends at times of
// its own. Bookkeeping only.
//
// News are sums since a worker began, so none is counted twice, and one that was missed is in the next.
#pragma once

#include <map>
#include <vector>

#include "paceline/serving/worker_news.h"

namespace paceline {

class NewsWindow {
 public:
  struct Sums {
    double samples = 0, loss = 0, correct = 0;

    double mean_loss() const { return loss / samples; }  // REQUIRES: samples > 0
    double accuracy() const { return correct / samples; }
  };

  // The newest news of each worker, as often as wanted. A worker that was started again counts from 0.
  void see(const std::vector<WorkerNews>& newest);

  const Sums& sums() const { return all_; }  // since the window began
  Sums of_worker(int worker) const;
  void close();  // the next window begins

 private:
  std::map<int, Sums> last_;     // that each worker told
  std::map<int, Sums> workers_;  // since the window began
  Sums all_;
};

}  // namespace paceline
