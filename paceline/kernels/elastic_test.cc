#include "paceline/kernels/elastic.h"

#include <gmock/gmock.h>

#include <vector>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

class ElasticTest : public ::testing::TestWithParam<size_t> {};

TEST_P(ElasticTest, EqualsItsReferenceBitForBit) {
  const size_t count = GetParam();
  std::vector<float> server = random_numbers(1, count), worker = random_numbers(2, count);
  std::vector<float> expected_server = server, expected_worker = worker;
  elastic_exchange(server.data(), worker.data(), count, 0.3f);
  elastic_exchange_reference(expected_server.data(), expected_worker.data(), count, 0.3f);
  EXPECT_EQ(server, expected_server);
  EXPECT_EQ(worker, expected_worker);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ElasticTest, ::testing::Values(0, 1, 7, 31, 33, 1000, 100'003));

TEST(Elastic, BothMoveTowardsEachOther) {
  float server = 2, worker = 10;
  elastic_exchange(&server, &worker, 1, 0.25f);
  EXPECT_EQ(server, 4);
  EXPECT_EQ(worker, 8);
}

}  // namespace
}  // namespace paceline
