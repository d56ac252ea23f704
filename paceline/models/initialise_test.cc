#include "paceline/models/initialise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/core/error.h"
#include "paceline/core/random.h"
#include "paceline/models/layers.h"
#include "paceline/models/state.h"

namespace paceline {
namespace {

std::shared_ptr<Model> initialised(const std::string& name, const std::string& scheme, uint64_t seed,
                                   bool zero_gamma = true) {
  auto model = make_model(builtin_models(), name, {.classes = 10, .image_size = 32, .zero_gamma = zero_gamma});
  initialise(*model, scheme, seed);
  return model;
}

double deviation_of(Model& model, const std::string& parameter) {
  return model.named_parameters()[parameter].detach().to(torch::kFloat64).std().item<double>();
}

TEST(Initialise, TheSeedDecides) {
  const std::string weights = weights_sha256(*initialised("resnet20", "kaiming", 1));
  EXPECT_EQ(weights, weights_sha256(*initialised("resnet20", "kaiming", 1)));
  EXPECT_NE(weights, weights_sha256(*initialised("resnet20", "kaiming", 2)));
}

TEST(Initialise, TheNumberOfThreadsDoesNot) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const std::string alone = weights_sha256(*initialised("resnet18", "kaiming", 1));
  at::set_num_threads(3);
  const std::string shared = weights_sha256(*initialised("resnet18", "kaiming", 1));
  at::set_num_threads(threads);
  EXPECT_EQ(alone, shared);
}

TEST(Initialise, NorDoesTheRestOfTheModel) {
  const auto shallow = initialised("resnet20", "kaiming", 1), deep = initialised("resnet56", "kaiming", 1);
  EXPECT_TRUE(
      shallow->named_parameters()["layer1.0.conv1.weight"].equal(deep->named_parameters()["layer1.0.conv1.weight"]));
  EXPECT_FALSE(
      shallow->named_parameters()["layer1.0.conv1.weight"].equal(shallow->named_parameters()["layer1.0.conv2.weight"]));
}

TEST(Initialise, NorDoesTheMemoryFormat) {
  const auto rows = initialised("resnet20", "kaiming", 1), channels_last = initialised("resnet20", "kaiming", 2);
  for (torch::Tensor& parameter : channels_last->parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
  }
  initialise(*channels_last, "kaiming", 1);
  EXPECT_EQ(weights_sha256(*rows), weights_sha256(*channels_last));
}

TEST(Initialise, DeviationsAreThoseOfTheScheme) {
  // layer4.1.conv1.weight of ResNet-18: [512, 512, 3, 3], 2.4 million numbers
  const std::string conv = "layer4.1.conv1.weight";
  const double fan = 512 * 9, tolerance = 0.005;
  EXPECT_NEAR(deviation_of(*initialised("resnet18", "kaiming", 1), conv) / std::sqrt(2 / fan), 1, tolerance);
  EXPECT_NEAR(deviation_of(*initialised("resnet18", "xavier", 1), conv) / std::sqrt(1 / fan), 1, tolerance);
  EXPECT_NEAR(deviation_of(*initialised("resnet18", "normal", 1), conv), 1, tolerance);
  EXPECT_NEAR(deviation_of(*initialised("resnet18", "kaiming", 1), "fc.weight") / 0.01, 1, 0.05);
}

TEST(Initialise, NormalisationBeginsAsTheIdentityAndBiasesAtZero) {
  const auto model = initialised("resnet18", "kaiming", 1);
  auto parameters = model->named_parameters();
  EXPECT_TRUE((parameters["bn1.weight"] == 1).all().item<bool>());
  EXPECT_TRUE((parameters["bn1.bias"] == 0).all().item<bool>());
  EXPECT_TRUE((parameters["fc.bias"] == 0).all().item<bool>());
  auto buffers = model->named_buffers();
  EXPECT_TRUE((buffers["bn1.running_mean"] == 0).all().item<bool>());
  EXPECT_TRUE((buffers["bn1.running_var"] == 1).all().item<bool>());
  EXPECT_EQ(buffers["bn1.num_batches_tracked"].item<int64_t>(), 0);
}

TEST(Initialise, ZeroGammaIsInTheLastNormalisationOfEachBlockOnly) {
  for (const auto& [name, last] : {std::pair("resnet18", ".bn2.weight"), std::pair("resnet50", ".bn3.weight")}) {
    const auto zero = initialised(name, "kaiming", 1), one = initialised(name, "kaiming", 1, /*zero_gamma=*/false);
    int zeros = 0;
    for (const auto& item : zero->named_parameters()) {
      if (item.value().dim() != 1 || !item.key().ends_with(".weight")) continue;
      const bool is_last = item.key().ends_with(last);
      EXPECT_TRUE((item.value() == (is_last ? 0 : 1)).all().item<bool>()) << name << " " << item.key();
      zeros += is_last;
    }
    EXPECT_EQ(zeros, name == std::string("resnet18") ? 8 : 16);
    for (const auto& item : one->named_parameters()) {
      EXPECT_TRUE(!item.key().ends_with(last) || (item.value() == 1).all().item<bool>()) << item.key();
    }
  }
}

TEST(Initialise, OddSizesAndNoElements) {
  struct Odd : Model {
    Odd() {
      register_parameter("odd", torch::empty({1, 3}));
      register_parameter("none", torch::empty({0, 3}));
    }
    torch::Tensor forward(torch::Tensor images) override { return images; }
  };
  const auto model = std::make_shared<Odd>();
  initialise(*model, "kaiming", 5);
  const RandomKey key = RandomKey(5).with("odd");
  const float* elements = model->named_parameters()["odd"].data_ptr<float>();
  EXPECT_EQ(elements[0], 0.01f * key.normal_pair(0)[0]);
  EXPECT_EQ(elements[1], 0.01f * key.normal_pair(0)[1]);
  EXPECT_EQ(elements[2], 0.01f * key.normal_pair(1)[0]);
}

TEST(Initialise, RefusesAnUnknownScheme) {
  const auto model = make_model(builtin_models(), "resnet20", {.classes = 10, .image_size = 32});
  EXPECT_THROW(initialise(*model, "orthogonal", 1), UsageError);
}

}  // namespace
}  // namespace paceline
