#include "paceline/serving/worker_device.h"

#include <gtest/gtest.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

TEST(WorkerDevice, WorkersOfAMachineTakeItsDevicesInTurn) {
  const int expected[] = {0, 1, 2, 3, 0, 1};
  for (int place = 0; place < 6; ++place) EXPECT_EQ(device_of_worker(place, 4), expected[place]);
  for (int place = 0; place < 6; ++place) EXPECT_EQ(device_of_worker(place, 1), 0);
}

TEST(WorkerDevice, WithoutDevicesThereIsNone) { EXPECT_THROW(device_of_worker(0, 0), InternalError); }

}  // namespace
}  // namespace paceline
