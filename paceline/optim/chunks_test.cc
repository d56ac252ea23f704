#include "paceline/optim/chunks.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>

namespace paceline {
namespace {

std::vector<Parameter> tensors_of_sizes(const std::vector<int64_t>& sizes) {
  std::vector<Parameter> parameters;
  for (const int64_t size : sizes) {
    torch::Tensor tensor = torch::zeros({size}, torch::requires_grad());
    tensor.mutable_grad() = torch::ones({size});
    parameters.push_back({fmt::format("p{}", parameters.size()), tensor, true});
  }
  return parameters;
}

TEST(ChunkTable, CoversEveryElementOnceInSmallPieces) {
  const auto parameters = tensors_of_sizes({3 * kChunkElements + 5, 1, 0, kChunkElements, 7, 100'000});
  const int threads = at::get_num_threads();
  for (const int used : {1, 2, 3}) {
    at::set_num_threads(used);
    for (const Parameter& parameter : parameters) parameter.tensor.detach().zero_();
    const ChunkTable table(parameters);
    std::atomic<int> visits = 0;
    table.for_each([&](const Chunk& chunk) {
      EXPECT_LE(chunk.count, static_cast<size_t>(kChunkElements));
      for (size_t i = 0; i < chunk.count; ++i) chunk.weights[i] += chunk.gradient[i];
      ++visits;
    });
    EXPECT_EQ(visits, static_cast<int>(table.chunks().size()));
    for (const Parameter& parameter : parameters) EXPECT_TRUE((parameter.tensor == 1).all().item<bool>());
  }
  at::set_num_threads(threads);
}

TEST(ChunkTable, CutsEachTensorFromItsBeginning) {
  const auto parameters = tensors_of_sizes({5, kChunkElements + 1});
  const ChunkTable table(parameters);
  ASSERT_EQ(table.chunks().size(), 3u);
  EXPECT_EQ(table.chunks()[1].begin, 0);
  EXPECT_EQ(table.chunks()[1].count, static_cast<size_t>(kChunkElements));
  EXPECT_EQ(table.chunks()[2].begin, kChunkElements);
  EXPECT_EQ(table.chunks()[2].count, 1u);
}

TEST(ChunkTable, LeavesOutWhatHasNoGradientUnlessAskedForAll) {
  auto parameters = tensors_of_sizes({5, 6});
  parameters[0].tensor.mutable_grad().reset();
  const ChunkTable with_gradient(parameters), all(parameters, ChunkTable::Members::all);
  ASSERT_EQ(with_gradient.chunks().size(), 1u);
  EXPECT_EQ(with_gradient.chunks()[0].parameter, 1u);
  EXPECT_EQ(all.chunks().size(), 2u);
}

TEST(ChunkTable, LeavesOtherTypesToTorch) {
  torch::Tensor tensor = torch::zeros({4}, torch::TensorOptions(torch::kFloat64).requires_grad(true));
  tensor.mutable_grad() = torch::ones({4}, torch::kFloat64);
  const ChunkTable table({{"p", tensor, true}});
  EXPECT_TRUE(table.chunks().empty());
  ASSERT_EQ(table.others().size(), 1u);
  EXPECT_EQ(table.others()[0].parameter, 0u);
}

}  // namespace
}  // namespace paceline
