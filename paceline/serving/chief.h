// Chief: who looks after a run on a parameter server: it evaluates what the servers have, writes metrics and
// checkpoints, and says when the run is over. It computes no gradients, and workers never wait for it.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>

#include "paceline/comm/group.h"
#include "paceline/core/clock.h"
#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/metrics/progress.h"
#include "paceline/ps/observer.h"
#include "paceline/serving/flat_model.h"
#include "paceline/serving/news_window.h"
#include "paceline/serving/server_plan.h"
#include "paceline/serving/worker_news.h"
#include "paceline/train/catalog.h"
#include "paceline/train/checkpoint.h"
#include "paceline/train/evaluator.h"
#include "paceline/train/run_book.h"
#include "paceline/train/run_folder.h"
#include "paceline/train/run_length.h"
#include "paceline/train/summary.h"

namespace paceline {

struct ChiefOptions {
  int workers = 1;
  std::vector<std::string> servers;
  TransportSecurity security;
  int64_t patience_ms = 60'000;  // how long servers may be away
  std::string run;
  RunFolder run_folder;
  Log* log = nullptr;
  Progress* progress = nullptr;
  std::optional<CheckpointRef> from;  // where the run goes on
  bool goes_on = false;               // another chief looked after this run before, and its servers still have it
  // With servers that were there before: once the chief has seen that they are at the beginning of the run, or, where
  // it goes on, not before what the run's folder has. Until then no worker of this machine may join. On the chief's
  // thread.
  std::function<void()> may_begin;
  bool workers_elsewhere = false;  // others than worker 0 are started by others, and may have begun
  std::function<void(uint64_t used_samples)> looked = [](uint64_t) {};  // at the servers; on the chief's thread
  std::stop_token servers_gone;                                         // they will not come back: run() throws at once
  std::stop_token stop;
  Catalog catalog;
};

class Chief {
 public:
  Chief(Recipe recipe, ChiefOptions options);
  ~Chief();

  // Until all samples are used, the target is reached, or somebody asks to stop. Throws PeerError when servers stay
  // away.
  Summary run();

 private:
  void check_state_of_servers();
  void do_what_is_due(int64_t step_before, double epoch_before);
  void wait_for_last_words();
  // What the servers have; `weights` and the workers' mean statistics go into the model.
  void look(bool weights);
  void take(ServerSnapshot snapshot);
  void record();
  // Evaluates the newest weights beside the loop, which goes on looking and recording; the model is taken meanwhile.
  void begin_evaluation();
  void end_evaluation();  // waits for it
  bool evaluation_is_done() const;
  void load_weights();
  void write_checkpoint();
  void require_finite_weights();
  void show_progress();
  int64_t step() const;  // of the run, as it is counted for people
  GroupCosts costs() const;
  Summary summarise();

  const Recipe recipe_;
  ChiefOptions options_;
  SteadyClock clock_;
  std::unique_ptr<Group> alone_;
  torch::Device device_;
  DatasetPair data_;
  FlatModel flat_;
  ServerPlan plan_;
  BatchSchedule batch_;
  RunLength length_;
  Evaluator evaluator_;
  CheckpointStore checkpoints_;
  std::unique_ptr<ServerObserver> observer_;

  ServerSnapshot seen_;
  std::vector<WorkerNews> news_;  // of each worker that has told some
  NewsWindow window_;             // since the last line of metrics
  RunState state_;
  RunBook book_;
  size_t statistics_count_ = 0;  // of the model's batch normalisation
  bool odd_news_told_ = false;
  double first_seconds_ = 0;
  int64_t begun_ns_ = 0;
  std::optional<int64_t> over_ns_;  // when that was seen: then the run's time stands still
  struct Evaluating {
    std::future<std::optional<Evaluation>> result;  // nothing: it was broken off
    RunPlace place;                                 // whose weights they are
    int64_t from_ns = 0;
  };
  std::optional<Evaluating> evaluating_;
  bool evaluation_due_ = false, checkpoint_due_ = false;
  int64_t recorded_step_ = 0;  // of the last line of metrics
  double noted_seconds_ = 0;   // when seen.json was written
  std::string ending_;
};

}  // namespace paceline
