// Reducer: sums gradients over the ranks, bucket by bucket, while backward still runs.
//
//   Reducer reducer(parameters, group, {});
//   reducer.begin();                 // forgets the last step's gradients
//   reducer.expect_last_pass();      // the next backward completes them; without it, gradients are accumulated
//   loss.backward();
//   reducer.finish();                // every parameter's grad() is now the sum over the ranks
//
// A hook moves each gradient into its place in a flat bucket (one pass: quicker than zeroing the bucket and adding to
// it) and lets grad() point there. A large gradient is a bucket of its own and is not moved: autograd has made it in
// memory that the ranks share (GradientMemory). A bucket that is full leaves on the communication thread. Buckets leave
// by their index, so that all ranks do the same in the same order. What is in which bucket and how it is summed is
// fixed at the start: two runs have the same bits.
//
// Parameters on a CUDA device have their buckets there (DeviceBuckets), and NCCL sums them in the order of a stream: no
// thread, no lone gradients, and nothing that waits for the device. Only flags and riders go over the host group.
//
// A parameter that took no part in a step on this rank counts as zero; one that took part on no rank has no gradient.
// A rank without samples calls begin() and finish(). On one rank gradients stay where autograd put them. Over several,
// a backward pass outside a step, from begin() to finish(), throws UsageError: nothing would sum its gradients.
#pragma once

#include <torch/autograd.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/collectives/hybrid.h"
#include "paceline/collectives/reduction_plan.h"
#include "paceline/core/clock.h"
#include "paceline/gradients/bucket_sum.h"
#include "paceline/gradients/communication_thread.h"
#include "paceline/gradients/device_buckets.h"
#include "paceline/gradients/gradient_memory.h"
#include "paceline/gradients/overlap.h"
#include "paceline/metrics/timeline.h"

namespace paceline {

struct ReducerOptions {
  uint64_t bucket_bytes = 0;                 // 0: chosen from the cost model
  Overlap overlap = Overlap::where_it_pays;  // without it everything is summed in finish()
  int compute_threads = 0;                   // of this rank; 0: as libtorch has now
  std::string algorithm = "hybrid";          // or one of all_reduce_algorithms(); on devices: device_all_reduce.h
  HybridOptions hybrid = {.measure = HybridOptions::Measure::never};
  BucketSumOptions sum;  // on devices: codecs of 16-bit numbers only
  // What carries gradients on devices. Null: NCCL, for parameters on CUDA.
  std::function<std::unique_ptr<DeviceCommunicator>(Group&)> communicator;
  std::string stored_plan;  // of rank 0: what plan_json() said of a run that is resumed; used where it still serves
  Timeline* timeline = nullptr;  // told of every bucket
};

struct NamedParameter {
  std::string name;
  torch::Tensor tensor;
};

class Reducer {
 public:
  // The trainable parameters, in the order of the model, f32, all on one device. Every rank calls it with the same
  // ones.
  Reducer(std::vector<NamedParameter> parameters, Group& group, ReducerOptions options);
  ~Reducer();

  void begin();
  // `carry`: what is in the buckets from earlier passes is multiplied by it first.
  void expect_last_pass(float carry = 1);
  // Waits for all buckets. `riders` travel behind the last one: each becomes its sum over the ranks.
  void finish(std::span<double> riders = {});

  // Which parameters took part in the last step, on any rank; empty on one rank.
  const std::vector<bool>& took_part() const { return took_part_; }
  // Instead of a step from begin() to finish(): a CUDA graph of such a step is about to be replayed. Every rank calls
  // it, or none. Riders travel as in finish(). Throws TrainingError where ranks have recorded steps in which other
  // parameters take part (`recorded`: took_part() of then): some would leave out what others update.
  void repeat(const std::vector<bool>& recorded, std::span<double> riders);

  struct Cost {
    int64_t busy_ns = 0;     // the communication thread with buckets; 0 on devices, where nobody waits to see
    int64_t exposed_ns = 0;  // finish() waiting for it
  };
  Cost take_cost();  // since the last call

  int ranks() const { return world_.size(); }
  const BucketPlan& plan() const { return plan_.buckets; }
  std::string plan_json() const;  // of several ranks
  bool overlaps() const { return overlaps_; }
  std::string plan_text() const;  // buckets and algorithms, for people
  Codec* codec() const { return options_.sum.codec.get(); }

  // What is left of the lossy codec's past, by parameter: "residual.NAME", "momentum.NAME". Shares no memory. On one
  // rank, which needs no codec, loaded residuals join the next gradients.
  std::map<std::string, torch::Tensor> state() const;
  void load_state(const std::map<std::string, torch::Tensor>& state);

 private:
  // A pointer to a node of autograd, whose kind differs between versions of libtorch.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<torch::Tensor>()));
  struct Slot {  // of a parameter
    NamedParameter parameter;
    size_t bucket = 0;
    size_t offset = 0;    // in elements of the bucket
    bool lone = false;    // the bucket is where the gradient is
    torch::Tensor place;  // in the bucket, with the parameter's shape and strides; of a lone one, once it has arrived
    bool arrived = false;
    Accumulator accumulator;  // held: a parameter itself forgets its own, and our hook with it
    uintptr_t hook = 0;
  };
  void require_one_kind() const;
  void settle_plan();
  ReductionPlan make_plan(const std::string& circumstances, std::span<const size_t> counts);
  void allocate();
  void allocate_on_device();
  void attach_hooks();
  void arrive(Slot& slot);
  void put_in_place(Slot& slot, torch::Tensor& gradient);
  torch::Tensor room_for(const Slot& slot);
  void leave_full_buckets();
  void leave_up_to(size_t bucket);
  void sum_bucket(int bucket);
  void exchange(const std::function<bool(size_t)>& takes_part, std::span<double> riders);
  void pay_debts();
  TensorView bucket_view(size_t bucket) const;
  template <class Visit>
  void each_run(std::vector<std::vector<float>>& runs, const Visit& visit) const;

  Group& world_;
  ReducerOptions options_;
  std::vector<Slot> slots_;  // in backward order: the reverse of the model's
  ReductionPlan plan_;
  std::unique_ptr<Group> group_;
  std::unique_ptr<AllReduce> all_reduce_;
  Memory memory_;                                    // of buckets
  std::unique_ptr<GradientMemory> gradient_memory_;  // of lone gradients
  std::unique_ptr<BucketSum> sum_;
  bool on_device_ = false;
  std::unique_ptr<DeviceBuckets> device_;  // in the place of memory, sum and thread
  std::vector<int> missing_;               // parameters of each bucket that have not arrived
  bool overlaps_ = false;
  size_t next_to_leave_ = 0;
  bool in_step_ = false;  // from begin() to finish()
  bool last_pass_ = false;
  std::vector<double> used_and_riders_;
  std::vector<bool> took_part_;
  std::map<std::string, torch::Tensor> debts_;  // of one rank: residuals that were loaded
  SteadyClock clock_;
  Cost cost_;
  std::unique_ptr<CommunicationThread> thread_;  // last: ends first
};

}  // namespace paceline
