// Hybrid: for each size and type the all-reduce that the plan says. Choosing costs a few nanoseconds.
//
// The plan comes from rank 0: from the profile of these hosts, which is measured the first time, or from the cost
// model. Buffers of Group::allocate are what was measured; with others the same choice is made.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/measured_profile.h"
#include "paceline/collectives/plan.h"

namespace paceline {

struct HybridOptions {
  enum class Measure : uint8_t {
    never,         // a stored profile that fits, else the model
    when_missing,  // measure where none fits (up to some 15 s), and store it
    always
  };
  Measure measure = Measure::when_missing;
  std::optional<Grid> grid;              // of the torus; otherwise the most square one
  std::filesystem::path profile_folder;  // empty: profile_folder(process_environment())
  ProfileOptions profile;
  Warn warn = [](const std::string&) {};  // rank 0: a damaged profile, one that cannot be stored
};

class Hybrid : public AllReduce {
 public:
  // Every rank calls it, with the same plan.
  Hybrid(Group& group, Plan plan);

  const Plan& plan() const { return plan_; }

 protected:
  void reduce(const TensorView& data, ReduceOp op) override { find(data)->run_within(data, op); }

 private:
  struct Step {
    uint64_t up_to_bytes;
    AllReduce* algorithm;
  };
  // A program mostly asks for what it asked for last.
  AllReduce* find(const TensorView& data) {
    if (data.count != last_count_ || data.dtype != last_dtype_) {
      last_ = look_up(data);
      last_count_ = data.count;
      last_dtype_ = data.dtype;
    }
    return last_;
  }
  AllReduce* look_up(const TensorView& data) const {
    const std::vector<Step>& steps = steps_[static_cast<size_t>(data.dtype)];
    CHECK_GT(steps.size(), 0u);  // u8 is not reduced
    const Step* step = steps.data();
    while (data.bytes() > step->up_to_bytes) ++step;  // the last is for any size
    return step->algorithm;
  }

  Plan plan_;
  std::vector<std::unique_ptr<AllReduce>> algorithms_;
  std::array<std::vector<Step>, static_cast<size_t>(DType::u8) + 1> steps_;
  AllReduce* last_ = nullptr;
  size_t last_count_ = 0;
  DType last_dtype_ = DType::u8;  // which is not reduced: nothing was asked for yet
};

// Rank 0's decision for all: which profile, and the plan that follows from it. Every rank calls it.
struct PlanDecision {
  Plan plan;
  Profile profile;                     // without rows: the model decided
  std::filesystem::path profile_file;  // where it is kept; empty: nowhere. Rank 0's
  bool measured_now = false;
};
PlanDecision decide_plan(Group& group, const HybridOptions& options);

std::unique_ptr<Hybrid> make_hybrid(Group& group, const HybridOptions& options);

}  // namespace paceline
