#include "paceline/serving/worker_device.h"

#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/serving/worker_loop.h"
#include "paceline/train/test_network.h"

namespace paceline {
namespace {

TEST(WorkerDevice, WorkersOfAMachineTakeItsDevicesInTurn) {
  const int expected[] = {0, 1, 2, 3, 0, 1};
  for (int place = 0; place < 6; ++place) EXPECT_EQ(device_of_worker(place, 4), expected[place]);
  for (int place = 0; place < 6; ++place) EXPECT_EQ(device_of_worker(place, 1), 0);
}

TEST(WorkerDevice, WithoutDevicesThereIsNone) { EXPECT_THROW(device_of_worker(0, 0), InternalError); }

TEST(WorkerDevice, IsTheWorkersOwnGpuOrTheCpu) {
  for (int place = 0; place < 4; ++place)
    EXPECT_EQ(worker_device(torch::kCUDA, place, 4), torch::Device(torch::kCUDA, static_cast<int8_t>(place)));
  EXPECT_TRUE(worker_device(torch::kCPU, 3, 0).is_cpu());
}

TEST(WorkerDevice, AWorkerLoopComputesOnTheDeviceOfItsPlace) {
  for (int place = 0; place < 4; ++place) {
    std::vector<int> places;
    const WorkerLoop worker(tiny_recipe("", {"sync.policy=bsp"}), {.worker = 7 - place,
                                                                   .workers = 8,
                                                                   .place = place,
                                                                   .catalog = catalog_with_tiny(),
                                                                   .open_device = [&](const Recipe&, int own) {
                                                                     places.push_back(own);
                                                                     return torch::Device(torch::kCPU);
                                                                   }});
    EXPECT_EQ(places, std::vector{place});
  }
}

}  // namespace
}  // namespace paceline
