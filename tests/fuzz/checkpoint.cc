// JSON that comes out of a run's folder: state.json, plan.json, and the samples of a run on a parameter server.
//
// Input: which of them, the text. What is accepted is the same when it was written and read again, and can be used.
#include "paceline/collectives/reduction_plan.h"
#include "paceline/core/error.h"
#include "paceline/ps/sample_leases.h"
#include "paceline/train/run_state_text.h"
#include "tests/fuzz/fuzz.h"

namespace paceline::fuzz {
namespace {

const LeasePlan kPlan = {.data_size = 100, .total_samples = 300, .global_batch = 30, .workers = 3};

void read_state(const std::string& text) {
  const std::string written = nlohmann::json(parse_run_state(text, "state.json")).dump();
  require(nlohmann::json(parse_run_state(written, "state.json")).dump() == written, "a state is read as it was");
}

void read_plan(const std::string& text) {
  const ReductionPlan plan = parse_reduction_plan(text);
  require(parse_reduction_plan(print_reduction_plan(plan)) == plan, "a plan is read as it was");
  plan.buckets.fits(std::vector<size_t>{9, 64, 1000});
  plan.buckets.memory_count();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64})
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{4}, uint64_t{1} << 20, kAnySize})
      plan.algorithms.algorithm(dtype, bytes);
  describe(plan.algorithms);
}

void read_leases(const std::string& text) {
  SampleLeases leases(kPlan);
  leases.load(text);
  SampleLeases again(kPlan);
  again.load(leases.save());
  require(again.save() == leases.save(), "leases are read as they were");
  leases.give_back_all();
  for (int i = 0; i < 1000 && leases.available(); ++i) {
    const auto lease = leases.lease(0);
    require(lease && lease->range.begin < lease->range.end && lease->range.end <= kPlan.data_size,
            "samples that there are");
    leases.use(0);
  }
}

}  // namespace
}  // namespace paceline::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  std::span<const uint8_t> input(data, size);
  const uint8_t which = fuzz::take_byte(input) % 3;
  const std::string text(fuzz::text_of(input));
  try {
    if (which == 0) fuzz::read_state(text);
    if (which == 1) fuzz::read_plan(text);
    if (which == 2) fuzz::read_leases(text);
  } catch (const DataError&) {
  }
  return 0;
}
