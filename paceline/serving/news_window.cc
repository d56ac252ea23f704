#include "paceline/serving/news_window.h"

namespace paceline {

void NewsWindow::see(const std::vector<WorkerNews>& newest) {
  for (const WorkerNews& news : newest) {
    Sums& last = last_[news.worker];
    if (news.samples < last.samples) last = {};
    for (Sums* const sums : {&workers_[news.worker], &all_}) {
      sums->samples += news.samples - last.samples;
      sums->loss += news.loss_sum - last.loss;
      sums->correct += news.correct - last.correct;
    }
    last = {.samples = news.samples, .loss = news.loss_sum, .correct = news.correct};
  }
}

NewsWindow::Sums NewsWindow::of_worker(int worker) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() ? found->second : Sums{};
}

void NewsWindow::close() {
  workers_.clear();
  all_ = {};
}

}  // namespace paceline
