#include "paceline/gradients/stale_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/check.h"
#include "paceline/core/error.h"
#include "paceline/gradients/gradient_place.h"
#include "paceline/sync/stale_all_reduce.h"

namespace paceline {
namespace {

// Elements up to the next multiple of 64 bytes.
constexpr size_t aligned(size_t count) { return (count + 15) / 16 * 16; }

size_t elements_of(const std::vector<NamedParameter>& parameters) {
  size_t elements = 0;
  for (const NamedParameter& parameter : parameters) elements += static_cast<size_t>(parameter.tensor.numel());
  return elements;
}

}  // namespace

StaleSum::StaleSum(std::vector<NamedParameter> parameters, Group& group, StaleSumOptions options)
    : parameters_(std::move(parameters)),
      gradients_(elements_of(parameters_)),
      stride_(aligned(slot_count())),
      options_(std::move(options)),
      slots_(options_.staleness + 1),
      sum_(group, slot_count(), options_.sum),
      memory_(sum_.allocate(slots_ * stride_)) {
  size_t offset = 0;
  for (const NamedParameter& parameter : parameters_) {
    if (!parameter.tensor.is_cpu() || parameter.tensor.scalar_type() != torch::kFloat32)
      throw UsageError(fmt::format("parameter {} is {} on {}: gradients that are summed late are f32 on the CPU",
                                   parameter.name, c10::toString(parameter.tensor.scalar_type()),
                                   parameter.tensor.device().str()));
    offsets_.push_back(offset);
    offset += static_cast<size_t>(parameter.tensor.numel());
  }
  thread_ = std::make_unique<CommunicationThread>([this](int job) { sum_slot(job); },
                                                  options_.overlap && options_.staleness > 0);
}

StaleSum::~StaleSum() {
  thread_.reset();
  for (const NamedParameter& parameter : parameters_) {
    torch::Tensor& gradient = parameter.tensor.mutable_grad();
    const auto* const data = gradient.defined() ? gradient.const_data_ptr<float>() : nullptr;
    const auto* const first = static_cast<const float*>(memory_.data());
    if (data >= first && data < first + slots_ * stride_) gradient.reset();  // it points into memory that goes
  }
}

float* StaleSum::slot(uint64_t number) const { return static_cast<float*>(memory_.data()) + number % slots_ * stride_; }
std::span<float> StaleSum::used(uint64_t number) const { return {slot(number) + gradients_, parameters_.size()}; }
std::span<float> StaleSum::riders(uint64_t number) const {
  return {slot(number) + gradients_ + parameters_.size(), kMostRiders};
}

bool StaleSum::exchange(std::span<double> riders) {
  const torch::NoGradGuard no_grad;
  give(made_, riders);
  const int64_t begin_ns = clock_.now_ns();
  thread_->submit_up_to(static_cast<int>(++made_ - first_job_));
  const std::optional<uint64_t> applied = applied_at(made_ - 1 - begin_, options_.staleness);
  if (applied) {
    CHECK_EQ(begin_ + *applied, taken_);
    take(taken_, riders);
  } else {
    std::ranges::fill(riders, 0);
    for (const NamedParameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  }
  CHECK_EQ(begin_ + under_way_after(made_ - begin_, options_.staleness).begin, taken_);
  exposed_ns_ += clock_.now_ns() - begin_ns;
  return applied.has_value();
}

bool StaleSum::take_next(std::span<double> riders) {
  const torch::NoGradGuard no_grad;
  if (under_way() == 0) return false;
  const int64_t begin_ns = clock_.now_ns();
  take(taken_, riders);
  if (under_way() == 0) begin_ = made_;
  exposed_ns_ += clock_.now_ns() - begin_ns;
  return true;
}

// The slot was taken `staleness` + 1 steps ago, and grad() has pointed there for one step.
void StaleSum::give(uint64_t number, std::span<const double> riders) {
  CHECK_LE(riders.size(), kMostRiders);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& gradient = parameters_[i].tensor.grad();
    const torch::Tensor place = place_in(slot(number) + offsets_[i], parameters_[i].tensor);
    used(number)[i] = gradient.defined() ? 1 : 0;
    gradient.defined() ? place.copy_(gradient) : place.zero_();
  }
  std::ranges::fill(this->riders(number), 0.0f);
  std::ranges::transform(riders, this->riders(number).begin(), [](double rider) { return static_cast<float>(rider); });
}

void StaleSum::take(uint64_t number, std::span<double> riders) {
  wait_for(number);
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].tensor.mutable_grad() =
        used(number)[i] > 0 ? place_in(slot(number) + offsets_[i], parameters_[i].tensor) : torch::Tensor();
  std::copy_n(this->riders(number).begin(), riders.size(), riders.begin());
  ++taken_;
}

void StaleSum::sum_slot(int job) {
  const uint64_t number = first_job_ + static_cast<uint64_t>(job);
  const int64_t begin_ns = clock_.now_ns();
  sum_.run({slot(number), slot_count(), DType::f32});
  const int64_t end_ns = clock_.now_ns();
  busy_ns_ += end_ns - begin_ns;
  if (options_.timeline)
    options_.timeline->add({.name = fmt::format("gradients of step {}", number),
                            .category = "all_reduce",
                            .track = "communication",
                            .begin_ns = begin_ns,
                            .end_ns = end_ns,
                            .arguments = {{"bytes", static_cast<double>(slot_count() * sizeof(float))}}});
}

void StaleSum::wait_for(uint64_t number) {
  if (number >= first_job_) thread_->wait_for(static_cast<int>(number - first_job_));
}

void StaleSum::settle() {
  if (made_ > 0) wait_for(made_ - 1);
}

bool StaleSum::all_finite() {
  settle();
  for (uint64_t number = taken_; number < made_; ++number)
    if (!std::ranges::all_of(std::span(slot(number), gradients_), [](float value) { return std::isfinite(value); }))
      return false;
  return true;
}

std::map<std::string, torch::Tensor> StaleSum::state() {
  settle();
  std::map<std::string, torch::Tensor> state;
  for (uint64_t number = taken_; number < made_; ++number) {
    const std::string age = fmt::format("stale.{}", made_ - number);
    const std::span<float> counts = used(number);
    state.emplace(age, torch::from_blob(counts.data(), {static_cast<int64_t>(counts.size())}, torch::kFloat32));
    for (size_t i = 0; i < parameters_.size(); ++i)
      state.emplace(age + "." + parameters_[i].name, place_in(slot(number) + offsets_[i], parameters_[i].tensor));
  }
  return state;
}

std::map<std::string, torch::Tensor> StaleSum::resume(uint64_t ages) {
  CHECK_EQ(made_, 0u);
  CHECK_LE(ages, options_.staleness);
  made_ = first_job_ = ages;
  return state();
}

Reducer::Cost StaleSum::take_cost() {
  return {.busy_ns = busy_ns_.exchange(0), .exposed_ns = std::exchange(exposed_ns_, 0)};
}

std::string StaleSum::plan_text() const {
  const bool beside = options_.overlap && options_.staleness > 0;
  return fmt::format("gradients are applied {} step{} late{}, {}", options_.staleness,
                     options_.staleness == 1 ? "" : "s",
                     sum_.algorithm_text().empty() ? "" : ", summed by " + sum_.algorithm_text(),
                     beside ? "beside the steps" : "after backward");
}

}  // namespace paceline
