// WorkerLoop: one worker of a run on a parameter server: gets parameters and samples, computes, pushes, until the run
// is over.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "paceline/core/clock.h"
#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/optim/curvature_rate.h"
#include "paceline/optim/optimizer.h"
#include "paceline/ps/worker.h"
#include "paceline/schedule/schedule.h"
#include "paceline/serving/flat_model.h"
#include "paceline/serving/gradient_stream.h"
#include "paceline/serving/lease_samples.h"
#include "paceline/serving/server_plan.h"
#include "paceline/serving/worker_device.h"
#include "paceline/serving/worker_news.h"
#include "paceline/train/catalog.h"
#include "paceline/train/gradient_pass.h"

namespace paceline {

struct WorkerLoopOptions {
  int worker = 0;
  int workers = 1;  // that the run expects
  int place = 0;    // among the workers of this machine, which take its GPUs in turn
  std::vector<std::string> servers;
  std::filesystem::path checkpoint;  // whose statistics of batch normalisation it goes on with; empty: it begins
  TransportSecurity security;
  int64_t patience_ms = 60'000;  // how long servers may be away
  std::string run;
  int threads = 1;
  std::stop_token stop;
  Log* log = nullptr;
  Catalog catalog;
  std::function<torch::Device(const Recipe& recipe, int place)> open_device = open_worker_device;  // tests have others
};

class WorkerLoop {
 public:
  // Opens the data and builds the model. Throws RecipeError, DataError.
  WorkerLoop(Recipe recipe, WorkerLoopOptions options);
  ~WorkerLoop();

  // Throws TrainingError when loss or gradients are no longer finite, PeerError when the servers stay away.
  void run();

 private:
  double compute(const SampleLease& lease);  // the rate that its gradient wants
  void gradient_of(const BatchRange& range, const SampleLease& lease);
  void make_local_steps(const SampleLease& lease);
  void tell_news();
  double own_rate(const SampleLease& lease, double scheduled);
  double epoch_at(uint64_t cursor_samples) const;
  [[noreturn]] void fail(const SampleLease& lease, const std::string& what) const;

  const Recipe recipe_;
  WorkerLoopOptions options_;
  SteadyClock clock_;
  torch::Device device_;
  DatasetPair data_;
  FlatModel flat_;
  ServerPlan plan_;
  Schedule rate_;
  GradientPass pass_;
  LeaseSamples samples_;
  std::unique_ptr<Optimizer> optimizer_;        // of workers that step alone
  std::unique_ptr<CurvatureRate> worker_rate_;  // of workers that find their own
  double first_rate_ = 0;                       // what it begins with: optimizer.rate, scaled to the batch
  std::vector<float> parameters_, push_;
  std::optional<ServerWorker> server_;
  std::unique_ptr<GradientStream> stream_;  // where gradients leave while backward computes

  double loss_sum_ = 0;  // since it began, as the following
  int64_t correct_ = 0, samples_seen_ = 0, steps_ = 0;
  double compute_s_ = 0;
  double last_rate_ = 0;
  int64_t told_ns_ = 0, told_samples_ = 0;
};

}  // namespace paceline
