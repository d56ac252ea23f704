// DataParallel: several processes train your torch::nn::Module as if they were one.
//
//   paceline::World world = paceline::World::connect({});        // who started us, and where are the others?
//   paceline::DataParallel parallel(*model, world.group());      // every rank has rank 0's weights now
//   for (auto& batch : *loader) {                                // this rank's part of the data
//     const auto loss = torch::nll_loss(model->forward(batch.data), batch.target);
//     parallel.backward(loss, batch.data.size(0));               // in place of loss.backward()
//     optimizer.step();
//   }
//   parallel.join([&] { optimizer.step(); });                    // the others may have one batch more
//
// Start it with `paceline launch -n 4 -- PROGRAM`, mpirun, srun or torchrun; alone it is one rank. Gradients travel
// while backward runs. All ranks call the same methods in the same order.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>

#include "paceline/gradients/reducer.h"
#include "paceline/gradients/statistics_share.h"

namespace paceline {

struct DataParallelOptions {
  uint64_t bucket_bytes = 0;         // 0: chosen from the cost model
  bool overlap = true;               // send gradients while backward runs, where that pays
  std::string algorithm = "hybrid";  // or the name of an all-reduce
  std::shared_ptr<Codec> codec;      // null: gradients travel as they are. Any Codec will do, also your own
  bool error_feedback = true;        // what a lossy codec leaves out joins the next step
  double momentum_correction = 0;    // for sparse codecs: the momentum, which your optimizer then must not have
};

class DataParallel {
 public:
  // Parameters are f32, all on the CPU or all on one CUDA device (each rank's own; no codec there); those that do not
  // require gradients are left alone. Both must outlive this. Throws UsageError where ranks have other parameters or
  // buffers than rank 0.
  DataParallel(torch::nn::Module& module, Group& group, const DataParallelOptions& options = {});
  ~DataParallel();

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  // `loss` is the mean over this rank's `samples`. Afterwards grad() of every parameter is the mean over the samples of
  // all ranks. There is no need for zero_grad(): each step begins anew. An exception in backward on one rank forgets
  // the step; over several ranks, some of which may have summed a part of it, every later call throws UsageError. Over
  // several ranks a plain loss.backward() throws UsageError.
  void backward(const torch::Tensor& loss, int64_t samples = 1);
  // The same without communication: its gradients join those of the next backward(), which is then a mean over all.
  void accumulate(const torch::Tensor& loss, int64_t samples = 1);

  // This rank has no more batches. Takes part in the steps of those that do, with no samples of its own, until every
  // rank has called it; `step` is called for each (your optimizer's), so that weights and its state stay the same on
  // all.
  void join(const std::function<void()>& step);

  double sum(double value);                      // over the ranks
  double mean(double value, double weight = 1);  // weighted over the ranks: a metric and its samples

  // Running statistics of batch normalisation become their mean over the ranks. Before evaluating or saving.
  void average_statistics();
  // Parameters and buffers become rank 0's, as at the start. After changing them on rank 0.
  void broadcast();

  Reducer& reducer() { return reducer_; }

 private:
  struct Agreement {
    double samples = 0;
    double ranks = 0;  // that are in this step with samples
  };
  Agreement agree(double samples, bool taking_part);
  Agreement agree_on_step(double samples);
  void begin_if_new();
  void forget_step();

  torch::nn::Module& module_;
  Group& group_;
  Reducer reducer_;
  StatisticsShare share_;
  bool begun_ = false;
  bool torn_ = false;  // an exception has left a step that ranks had begun to sum
  double accumulated_samples_ = 0;
};

}  // namespace paceline
