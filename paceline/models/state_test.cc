#include "paceline/models/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/core/sha256.h"
#include "paceline/models/layers.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Pair : torch::nn::Module {
  Pair() {
    fc = register_module("fc", std::make_shared<Linear>(2, 3));
    bn = register_module("bn", std::make_shared<BatchNorm2d>(1));
    torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters()) parameter.fill_(1);
    bn->reset();
  }
  std::shared_ptr<Linear> fc;
  std::shared_ptr<BatchNorm2d> bn;
};

NamedTensors copy(const NamedTensors& state) {
  NamedTensors copies;
  for (const auto& [name, tensor] : state) copies.emplace(name, tensor.clone());
  return copies;
}

TEST(StateOf, HasParametersAndBuffersAndSharesTheirMemory) {
  Pair module;
  NamedTensors state = state_of(module);
  ASSERT_EQ(state.size(), 7u);
  EXPECT_TRUE(state.contains("bn.num_batches_tracked"));
  EXPECT_FALSE(state.at("fc.weight").requires_grad());
  state.at("fc.weight").fill_(8);
  EXPECT_EQ(module.named_parameters()["fc.weight"][0][0].item<float>(), 8);
}

TEST(LoadState, CopiesInPlace) {
  Pair from, to;
  state_of(from).at("fc.bias").fill_(7);
  const void* before = to.named_parameters()["fc.bias"].data_ptr();
  load_state(to, state_of(from), "w.safetensors");
  EXPECT_EQ(weights_sha256(from), weights_sha256(to));
  EXPECT_EQ(to.named_parameters()["fc.bias"].data_ptr(), before);
  EXPECT_TRUE(to.named_parameters()["fc.bias"].requires_grad());
}

TEST(LoadState, ListsEverythingThatDoesNotFitAndTouchesNothing) {
  Pair module;
  NamedTensors state = copy(state_of(module));
  for (auto& [name, tensor] : state) tensor.zero_();
  state.erase("fc.bias");
  state.emplace("fc.bais", torch::zeros({3}));
  state.at("fc.weight") = torch::zeros({2, 3});
  state.at("bn.weight") = torch::zeros({1}, torch::kFloat64);
  const std::string before = weights_sha256(module);
  try {
    load_state(module, state, "w.safetensors");
    FAIL() << "it fits in four tensors only";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("w.safetensors"), HasSubstr("fc.bias is missing"),
                                    HasSubstr("fc.bais is unexpected; did you mean 'fc.bias'?"),
                                    HasSubstr("fc.weight is F32 [2,3], the model has F32 [3,2]"),
                                    HasSubstr("bn.weight is F64 [1], the model has F32 [1]")));
  }
  EXPECT_EQ(weights_sha256(module), before);
}

TEST(LoadState, AcceptsNothingForNothing) {
  torch::nn::Module empty;
  EXPECT_NO_THROW(load_state(empty, {}, "w.safetensors"));
}

TEST(WeightsSha256, IsWhatTheHeaderSays) {
  torch::nn::Module module;
  module.register_parameter("b", torch::tensor({1.0f, -2.0f}));
  module.register_buffer("a", torch::tensor(int64_t{5}));
  Sha256 expected;
  const int64_t five = 5;
  const float elements[] = {1.0f, -2.0f};
  expected.update("a I64 []\n", 9);
  expected.update(&five, sizeof five);
  expected.update("b F32 [2]\n", 10);
  expected.update(elements, sizeof elements);
  EXPECT_EQ(weights_sha256(module), expected.hex());
}

TEST(WeightsSha256, SeesNamesShapesTypesAndEveryElement) {
  auto hash = [](const std::string& name, const torch::Tensor& tensor) {
    torch::nn::Module module;
    module.register_buffer(name, tensor);
    return weights_sha256(module);
  };
  const std::string base = hash("w", torch::zeros({2, 3}));
  EXPECT_EQ(base, hash("w", torch::zeros({3, 2}).t()));  // how it lies in memory does not matter
  EXPECT_NE(base, hash("v", torch::zeros({2, 3})));
  EXPECT_NE(base, hash("w", torch::zeros({3, 2})));
  EXPECT_NE(base, hash("w", torch::zeros({2, 3}, torch::kInt32)));
  torch::Tensor other = torch::zeros({2, 3});
  other[1][2] = 1;
  EXPECT_NE(base, hash("w", other));
}

}  // namespace
}  // namespace paceline
