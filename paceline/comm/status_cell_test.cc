#include "paceline/comm/status_cell.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <thread>

namespace paceline {
namespace {

Operation numbered(uint64_t number) {
  return {Verb::broadcast, DType::i32, ReduceOp::max, static_cast<int32_t>(number % 1000), number, number};
}

TEST(StatusCell, IsIdleWithoutAnyOperationAtFirst) {
  const StatusCell cell;
  EXPECT_FALSE(cell.read().busy);
  EXPECT_EQ(cell.read().operation, Operation{});
}

TEST(StatusCell, IsValidInZeroedMemory) {
  alignas(StatusCell) std::byte memory[sizeof(StatusCell)];
  std::memset(memory, 0, sizeof memory);
  auto* cell = reinterpret_cast<StatusCell*>(memory);
  EXPECT_FALSE(cell->read().busy);
  EXPECT_EQ(cell->read().operation, Operation{});
  cell->begin(numbered(1), 5);
  EXPECT_TRUE(cell->read().busy);
}

TEST(StatusCell, ShowsTheOperationAndThenThatItWasTheLastOne) {
  StatusCell cell;
  cell.begin(numbered(1), 100);
  StatusCell::Reading reading = cell.read();
  EXPECT_TRUE(reading.busy);
  EXPECT_EQ(reading.operation, numbered(1));
  EXPECT_EQ(reading.since_ns, 100);

  cell.end(150);
  reading = cell.read();
  EXPECT_FALSE(reading.busy);
  EXPECT_EQ(reading.operation, numbered(1));
  EXPECT_EQ(reading.since_ns, 150);

  cell.begin(numbered(2), 200);
  EXPECT_EQ(cell.read().operation, numbered(2));
}

TEST(StatusCell, WithoutATimeItIsIdleSinceTheBeginning) {
  StatusCell cell;
  cell.begin(numbered(1), 100);
  cell.end_untimed();
  const StatusCell::Reading reading = cell.read();
  EXPECT_FALSE(reading.busy);
  EXPECT_EQ(reading.operation, numbered(1));
  EXPECT_EQ(reading.since_ns, 100);
}

// Each field of a reading is a function of its sequence number: a mixture of two would show.
TEST(StatusCell, IsNeverReadAsAMixture) {
  StatusCell cell;
  std::atomic<bool> stop{false};
  std::atomic<bool> begun{false};
  std::thread writer([&] {
    for (uint64_t number = 1; !stop.load(); ++number) {
      cell.begin(numbered(number), static_cast<int64_t>(2 * number));
      begun.store(true);
      cell.end(static_cast<int64_t>(2 * number + 1));
    }
  });
  while (!begun.load()) std::this_thread::yield();
  uint64_t newest = 0;
  int mixtures = 0;
  for (int i = 0; i < 20'000; ++i) {
    const StatusCell::Reading reading = cell.read();
    const uint64_t number = reading.operation.sequence;
    if (reading.operation != numbered(number) || number < newest ||
        reading.since_ns != static_cast<int64_t>(2 * number + (reading.busy ? 0 : 1)))
      ++mixtures;
    newest = number;
  }
  stop.store(true);
  writer.join();
  EXPECT_EQ(mixtures, 0);
}

}  // namespace
}  // namespace paceline
