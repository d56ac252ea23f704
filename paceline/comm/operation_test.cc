#include "paceline/comm/operation.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

const Operation kSum{Verb::all_reduce, DType::f32, ReduceOp::sum, -1, 1000, 12};

TEST(Operation, ReadsAsASentence) {
  EXPECT_EQ(to_text(kSum), "all_reduce #12 (sum of 1000 f32, 4000 bytes)");
  EXPECT_EQ(to_text({Verb::reduce_scatter, DType::bf16, ReduceOp::max, -1, 0, 1}),
            "reduce_scatter #1 (max of 0 bf16, 0 bytes)");
  EXPECT_EQ(to_text({Verb::broadcast, DType::u8, ReduceOp::sum, 0, 4, 3}), "broadcast #3 (4 u8, 4 bytes, from rank 0)");
  EXPECT_EQ(to_text({Verb::all_gather, DType::u8, ReduceOp::sum, -1, 1, 2}), "all_gather #2 (1 u8, 1 byte)");
  EXPECT_EQ(to_text({Verb::send, DType::i64, ReduceOp::sum, 7, 2, 0}), "send (2 i64, 16 bytes, to rank 7)");
  EXPECT_EQ(to_text({Verb::receive, DType::f16, ReduceOp::sum, 7, 2, 0}), "receive (2 f16, 4 bytes, from rank 7)");
}

TEST(Operation, SaysNothingOfDataWhereRanksMayDiffer) {
  EXPECT_EQ(to_text({.verb = Verb::barrier, .sequence = 4}), "barrier #4");
  EXPECT_EQ(to_text({.verb = Verb::all_to_all, .sequence = 5}), "all_to_all #5");
  EXPECT_EQ(to_text({.verb = Verb::split, .sequence = 6}), "split #6");
  EXPECT_EQ(to_text({}), "no operation");
}

TEST(Operation, NamesAValueThatIsNone) {
  EXPECT_EQ(name_of(static_cast<Verb>(200)), "unknown");
  EXPECT_EQ(name_of(static_cast<ReduceOp>(3)), "unknown");
}

TEST(Operation, HasACodeThatEveryFieldChanges) {
  std::vector<Operation> operations(7, kSum);
  operations[1].verb = Verb::reduce_scatter;
  operations[2].dtype = DType::i32;
  operations[3].reduce = ReduceOp::min;
  operations[4].peer = 0;
  operations[5].count = 1001;
  operations[6].sequence = 13;
  std::set<uint64_t> codes;
  for (const Operation& operation : operations) codes.insert(code_of(operation));
  EXPECT_EQ(codes.size(), operations.size());
  EXPECT_EQ(code_of(kSum), code_of(Operation(kSum)));
}

TEST(Operation, DoesNotConfuseCountWithSequence) {
  Operation one = kSum;
  Operation other = kSum;
  one.count = other.sequence = 5;
  one.sequence = other.count = 6;
  EXPECT_NE(code_of(one), code_of(other));
}

TEST(Operation, SurvivesAsWords) {
  for (const Operation& operation :
       {kSum, Operation{Verb::broadcast, DType::f64, ReduceOp::min, 4095, ~0ull, ~0ull}, Operation{}})
    EXPECT_EQ(from_words(to_words(operation)), operation);
  EXPECT_EQ(from_words({}), Operation{});
}

}  // namespace
}  // namespace paceline
