#include "paceline/gradients/reducer.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "paceline/collectives/group_text.h"
#include "paceline/collectives/platforms.h"
#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/comm/nccl_communicator.h"
#include "paceline/core/error.h"
#include "paceline/core/version.h"
#include "paceline/gradients/agreed_plan.h"
#include "paceline/gradients/gradient_place.h"

namespace paceline {
namespace {

uint64_t largest_bytes(const BucketPlan& plan) {
  uint64_t largest = 0;
  for (const Bucket& bucket : plan.buckets) largest = std::max(largest, bucket.bytes());
  return largest;
}

// "direct", "recursive_doubling and ring"
std::string algorithms_text(const BucketPlan& buckets, const Plan& plan, const std::string& fixed) {
  if (fixed != "hybrid") return fixed;
  std::set<std::string> names;
  for (const Bucket& bucket : buckets.buckets) names.insert(plan.algorithm(DType::f32, bucket.bytes()));
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace

Reducer::Reducer(std::vector<NamedParameter> parameters, Group& group, ReducerOptions options)
    : world_(group), options_(std::move(options)) {
  std::ranges::reverse(parameters);
  for (NamedParameter& parameter : parameters) slots_.push_back({.parameter = std::move(parameter)});
  if (world_.size() == 1) return;
  on_device_ = options_.communicator != nullptr || (!slots_.empty() && slots_.front().parameter.tensor.is_cuda());
  require_one_kind();
  group_ = world_.split(0, world_.rank());
  const int threads = options_.compute_threads > 0 ? options_.compute_threads : at::get_num_threads();
  overlaps_ = options_.overlap == Overlap::always ||
              (options_.overlap == Overlap::where_it_pays && (on_device_ || overlap_pays(*group_, threads)));
  settle_plan();
  allocate();
  attach_hooks();
  if (on_device_) return;
  thread_ = std::make_unique<CommunicationThread>([this](int bucket) { sum_bucket(bucket); }, overlaps_);
}

Reducer::~Reducer() {
  thread_.reset();
  for (Slot& slot : slots_) {
    if (slot.accumulator) slot.accumulator->del_post_hook(slot.hook);
    if (slot.place.defined()) slot.parameter.tensor.mutable_grad().reset();  // it points into memory that goes
  }
}

void Reducer::require_one_kind() const {
  for (const Slot& slot : slots_) {
    const torch::Tensor &tensor = slot.parameter.tensor, &first = slots_.front().parameter.tensor;
    const bool right = (tensor.is_cpu() || tensor.is_cuda()) && tensor.scalar_type() == torch::kFloat32;
    if (right && tensor.device() == first.device()) continue;
    throw UsageError(fmt::format(
        "parameter {} is {} on {}: gradients over several ranks are f32, all on the CPU or all on one CUDA device",
        slot.parameter.name, c10::toString(tensor.scalar_type()), tensor.device().str()));
  }
  if (on_device_ && options_.sum.codec && !options_.sum.codec->half_wire())
    throw UsageError(
        fmt::format("codec {} packs on the CPU; on CUDA devices gradients travel as they are (none), or as "
                    "16-bit numbers (fp16, bf16)",
                    options_.sum.codec->name()));
}

// Rank 0 decides: a plan that depends on what a rank has measured, or kept of an earlier run, must not differ between
// them.
void Reducer::settle_plan() {
  std::vector<size_t> counts;
  for (const Slot& slot : slots_) counts.push_back(static_cast<size_t>(slot.parameter.tensor.numel()));
  const Cluster cluster = cluster_of(*group_);
  const std::string circumstances = fmt::format(
      "{} ranks on {} hosts over {}, algorithm {}, bucket_bytes {}, version {}", cluster.ranks, cluster.hosts,
      on_device_ ? "devices" : group_->engine(), options_.algorithm, options_.bucket_bytes, kVersion);
  plan_ = agreed_plan(*group_, circumstances, counts, options_.stored_plan,
                      [&] { return make_plan(circumstances, counts); });
  if (!on_device_) all_reduce_ = all_reduce_by(plan_.algorithms, options_.algorithm, *group_);
}

ReductionPlan Reducer::make_plan(const std::string& circumstances, std::span<const size_t> counts) {
  const Cluster cluster = cluster_of(*group_);
  const Topology& topology = group_->topology();
  ReductionPlan plan = {
      .made_for = circumstances,
      .algorithms = on_device_ ? plan_of(choose_device_all_reduce(options_.algorithm, topology, options_.hybrid.grid))
                               : decide_plan(*group_, options_.hybrid).plan};
  const auto seconds = [&](uint64_t bytes) {
    if (on_device_) return device_all_reduce_seconds(topology, static_cast<double>(bytes));
    const std::string& name =
        options_.algorithm == "hybrid" ? plan.algorithms.algorithm(DType::f32, bytes) : options_.algorithm;
    return all_reduce_algorithm(name).cost(cluster, plan.algorithms.grid, static_cast<double>(bytes)).seconds;
  };
  const bool chosen = options_.bucket_bytes == 0;
  const uint64_t bucket_bytes = chosen ? choose_bucket_bytes(counts, seconds) : options_.bucket_bytes;
  const bool shared = chosen && group_->shared_memory() != nullptr;
  plan.buckets = plan_buckets(counts, bucket_bytes, on_device_ ? kOneBucket : chosen_lone_bytes(bucket_bytes, shared));
  return parse_reduction_plan(broadcast_text(*group_, group_->rank() == 0 ? print_reduction_plan(plan) : "", 0));
}

void Reducer::allocate() {
  const BucketPlan& buckets = plan_.buckets;
  missing_.resize(buckets.buckets.size());
  if (on_device_) return allocate_on_device();
  memory_ = group_->allocate(std::max<size_t>(buckets.memory_count(), 1) * sizeof(float));
  std::vector<size_t> bucket_counts, lone_bytes;
  for (size_t bucket = 0; bucket < buckets.buckets.size(); ++bucket) {
    const Bucket& planned = buckets.buckets[bucket];
    bucket_counts.push_back(planned.count);
    if (planned.lone) lone_bytes.push_back(planned.bytes());
    for (size_t i = 0; i < planned.parameters.size(); ++i) {
      Slot& slot = slots_[planned.parameters[i]];
      slot.bucket = bucket;
      slot.offset = planned.offsets[i];
      slot.lone = planned.lone;
      if (!slot.lone)
        slot.place = place_in(bucket_view(bucket).as<float>().data() + slot.offset, slot.parameter.tensor);
    }
  }
  gradient_memory_ = std::make_unique<GradientMemory>(*group_, lone_bytes);
  sum_ = std::make_unique<BucketSum>(*group_, *all_reduce_, std::move(bucket_counts), options_.sum);
}

void Reducer::allocate_on_device() {
  if (slots_.empty()) throw UsageError("a model without parameters has no gradients to sum");
  const torch::Device device = slots_.front().parameter.tensor.device();
  auto communicator =
      options_.communicator ? options_.communicator(*group_) : make_nccl_communicator(*group_, device.index());
  device_ =
      std::make_unique<DeviceBuckets>(*group_, std::move(communicator), choice_of(plan_.algorithms), plan_.buckets,
                                      device, options_.sum.codec ? options_.sum.codec->half_wire() : std::nullopt);
  for (size_t bucket = 0; bucket < missing_.size(); ++bucket) {
    const Bucket& planned = plan_.buckets.buckets[bucket];
    for (size_t i = 0; i < planned.parameters.size(); ++i) {
      Slot& slot = slots_[planned.parameters[i]];
      const torch::Tensor& parameter = slot.parameter.tensor;
      slot.bucket = bucket;
      slot.offset = planned.offsets[i];
      slot.place = device_->place(bucket, slot.offset, parameter.sizes(), strides_for(parameter));
    }
  }
}

std::string Reducer::plan_json() const { return print_reduction_plan(plan_); }

std::string Reducer::plan_text() const {
  const BucketPlan& buckets = plan_.buckets;
  std::string text =
      fmt::format("{} bucket{} of up to {:.3g} MiB, {}", buckets.buckets.size(), buckets.buckets.size() == 1 ? "" : "s",
                  static_cast<double>(largest_bytes(buckets)) / (1 << 20),
                  algorithms_text(buckets, plan_.algorithms, options_.algorithm));
  if (options_.sum.codec) text += fmt::format(", packed as {}", options_.sum.codec->name());
  text += overlaps_ ? ", summed while backward runs" : ", summed after backward";
  if (device_) text += " on the devices";
  if (device_ && !device_->remark().empty()) text += fmt::format(" ({})", device_->remark());
  return text;
}

void Reducer::attach_hooks() {
  for (Slot& slot : slots_) {
    slot.accumulator = torch::autograd::impl::grad_accumulator(slot.parameter.tensor);
    slot.hook = slot.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, &slot](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          arrive(slot);
          return outputs;
        }));
  }
}

void Reducer::begin() {
  if (gradient_memory_) gradient_memory_->close();  // a backward that threw left it open
  if (device_) device_->begin();
  for (Slot& slot : slots_) {
    slot.parameter.tensor.mutable_grad().reset();
    if (slot.lone) slot.place.reset();
    slot.arrived = false;
  }
  last_pass_ = false;
  in_step_ = true;
}

void Reducer::expect_last_pass(float carry) {
  if (world_.size() == 1) {
    if (carry != 1)
      for (const Slot& slot : slots_)
        if (slot.parameter.tensor.grad().defined()) slot.parameter.tensor.mutable_grad().mul_(carry);
    return;
  }
  if (carry != 1)
    for (const Slot& slot : slots_)
      if (slot.arrived) slot.place.mul_(carry);
  for (size_t bucket = 0; bucket < missing_.size(); ++bucket)
    missing_[bucket] = static_cast<int>(plan_.buckets.buckets[bucket].parameters.size());
  next_to_leave_ = 0;
  last_pass_ = true;
  if (gradient_memory_) gradient_memory_->open();
}

void Reducer::arrive(Slot& slot) {
  if (!in_step_)
    throw UsageError(fmt::format(
        "rank {}: loss.backward() was called by itself, and the gradient of {} would not be summed over the {} ranks, "
        "whose weights would drift apart; write parallel.backward(loss, samples) in its place, and "
        "parallel.accumulate(loss, samples) for all but the last part of a step",
        world_.rank(), slot.parameter.name, world_.size()));
  const torch::NoGradGuard no_grad;
  put_in_place(slot, slot.parameter.tensor.mutable_grad());
  slot.arrived = true;
  if (!last_pass_) return;
  --missing_[slot.bucket];
  leave_full_buckets();
}

// In the first pass of a step autograd hands over a tensor of its own; in later ones it has added to the place itself.
void Reducer::put_in_place(Slot& slot, torch::Tensor& gradient) {
  if (slot.place.defined() && gradient.data_ptr() == slot.place.data_ptr()) return;
  if (slot.lone) {
    const bool good = gradient.strides() == strides_for(slot.parameter.tensor) && gradient_memory_->holds(gradient);
    slot.place = good ? gradient : room_for(slot);
    if (good) return;
  }
  slot.place.copy_(gradient);
  gradient = slot.place;
}

torch::Tensor Reducer::room_for(const Slot& slot) {
  const torch::Tensor& parameter = slot.parameter.tensor;
  const torch::Tensor room = gradient_memory_->take(parameter.sizes(), strides_for(parameter));
  return room.defined() ? room : torch::empty_strided(parameter.sizes(), strides_for(parameter), torch::kFloat32);
}

void Reducer::leave_full_buckets() {
  const size_t before = next_to_leave_;
  while (next_to_leave_ < missing_.size() && missing_[next_to_leave_] == 0) ++next_to_leave_;
  if (overlaps_ && next_to_leave_ > before) leave_up_to(next_to_leave_);
}

void Reducer::leave_up_to(size_t bucket) {
  if (device_) {
    device_->leave_up_to(bucket);
  } else {
    thread_->submit_up_to(static_cast<int>(bucket));
  }
}

void Reducer::sum_bucket(int bucket) {
  const int64_t begin_ns = clock_.now_ns();
  const TensorView data = bucket_view(static_cast<size_t>(bucket));
  sum_->run(static_cast<size_t>(bucket), data);
  const int64_t end_ns = clock_.now_ns();
  cost_.busy_ns += end_ns - begin_ns;  // read only while no bucket is on its way
  if (options_.timeline)
    options_.timeline->add({.name = fmt::format("bucket {}", bucket),
                            .category = "all_reduce",
                            .track = "communication",
                            .begin_ns = begin_ns,
                            .end_ns = end_ns,
                            .arguments = {{"bytes", static_cast<double>(data.bytes())}}});
}

void Reducer::finish(std::span<double> riders) {
  const torch::NoGradGuard no_grad;
  if (world_.size() == 1) return pay_debts();
  if (gradient_memory_) gradient_memory_->close();
  const int64_t begin_ns = clock_.now_ns();
  for (Slot& slot : slots_) {
    if (slot.arrived) continue;
    if (slot.lone) slot.place = room_for(slot);
    slot.place.zero_();
  }
  leave_up_to(missing_.size());
  if (device_) {
    device_->finish();
  } else {
    thread_->wait_for_all();
  }

  exchange([this](size_t i) { return slots_[i].arrived; }, riders);
  for (size_t i = 0; i < slots_.size(); ++i)
    slots_[i].parameter.tensor.mutable_grad() = took_part_[i] ? slots_[i].place : torch::Tensor();
  last_pass_ = in_step_ = false;
  cost_.exposed_ns += clock_.now_ns() - begin_ns;
}

// Which parameters took part on any rank, and the sums of the riders.
void Reducer::exchange(const std::function<bool(size_t)>& takes_part, std::span<double> riders) {
  const auto behind_flags = static_cast<ptrdiff_t>(slots_.size());
  used_and_riders_.assign(slots_.size() + riders.size(), 0);
  for (size_t i = 0; i < slots_.size(); ++i) used_and_riders_[i] = takes_part(i) ? 1 : 0;
  std::ranges::copy(riders, used_and_riders_.begin() + behind_flags);
  sum_over_ranks(*group_, view(used_and_riders_));
  std::copy(used_and_riders_.begin() + behind_flags, used_and_riders_.end(), riders.begin());
  took_part_.assign(slots_.size(), false);
  for (size_t i = 0; i < slots_.size(); ++i) took_part_[i] = used_and_riders_[i] > 0;
}

void Reducer::repeat(const std::vector<bool>& recorded, std::span<double> riders) {
  if (world_.size() == 1) return;
  const int64_t begin_ns = clock_.now_ns();
  exchange([&](size_t i) { return recorded[i]; }, riders);
  const auto other = std::ranges::mismatch(took_part_, recorded).in1;
  if (other != took_part_.end())
    throw TrainingError(
        fmt::format("{} takes part in this step, and did not when it was recorded as a CUDA graph; set "
                    "train.graph = \"never\"",
                    slots_[static_cast<size_t>(other - took_part_.begin())].parameter.name));
  cost_.exposed_ns += clock_.now_ns() - begin_ns;
}

// Of codecs that the run had while it was on several ranks.
void Reducer::pay_debts() {
  if (debts_.empty()) return;
  for (const Slot& slot : slots_) {
    const auto debt = debts_.find("residual." + slot.parameter.name);
    if (debt == debts_.end() || !slot.parameter.tensor.grad().defined()) continue;
    slot.parameter.tensor.mutable_grad().add_(debt->second);
    debts_.erase(debt);
  }
}

Reducer::Cost Reducer::take_cost() { return std::exchange(cost_, {}); }

TensorView Reducer::bucket_view(size_t bucket) const {
  const Bucket& planned = plan_.buckets.buckets[bucket];
  if (planned.lone) return {slots_[planned.parameters[0]].place.data_ptr(), planned.count, DType::f32};
  return {static_cast<float*>(memory_.data()) + planned.begin, planned.count, DType::f32};
}

// Calls visit(slot, its part of the run of its bucket); runs may be empty.
template <class Visit>
void Reducer::each_run(std::vector<std::vector<float>>& runs, const Visit& visit) const {
  for (const Slot& slot : slots_) {
    if (slot.bucket >= runs.size() || runs[slot.bucket].empty()) continue;
    visit(slot, place_in(runs[slot.bucket].data() + slot.offset, slot.parameter.tensor));
  }
}

std::map<std::string, torch::Tensor> Reducer::state() const {
  if (!sum_) return debts_;  // of one rank; of devices there are none
  std::map<std::string, torch::Tensor> state;
  each_run(sum_->residuals(), [&](const Slot& slot, const torch::Tensor& part) {
    state["residual." + slot.parameter.name] = part.clone();
  });
  each_run(sum_->momenta(), [&](const Slot& slot, const torch::Tensor& part) {
    state["momentum." + slot.parameter.name] = part.clone();
  });
  return state;
}

void Reducer::load_state(const std::map<std::string, torch::Tensor>& state) {
  if (device_) return;
  if (!sum_) {
    debts_ = state;
    return;
  }
  const auto load = [&](const std::string& prefix) {
    return [&state, prefix](const Slot& slot, const torch::Tensor& part) {
      const auto found = state.find(prefix + slot.parameter.name);
      if (found != state.end()) part.copy_(found->second);
    };
  };
  const torch::NoGradGuard no_grad;
  each_run(sum_->residuals(), load("residual."));
  each_run(sum_->momenta(), load("momentum."));
}

}  // namespace paceline
