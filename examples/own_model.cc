// Trains a model of your own on Fashion-MNIST with the library: define it, give it a name, name it in a recipe.
//
// Prints one line, such as:  my_mlp: 235146 parameters, test accuracy 84.59 %
#include <torch/nn.h>
#include <cstdio>

#include "paceline/comm/engine_local.h"
#include "paceline/core/recipe.h"
#include "paceline/train/trainer.h"

// Any torch::nn module will do inside; Paceline initialises and trains what is registered.
class MyMlp : public paceline::Model {
 public:
  explicit MyMlp(const paceline::ModelOptions& options) {
    const int64_t pixels = options.channels * options.image_size * options.image_size;
    layers_ =
        register_module("layers", torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(pixels, 256),
                                                        torch::nn::ReLU(), torch::nn::Linear(256, 128),
                                                        torch::nn::ReLU(), torch::nn::Linear(128, options.classes)));
  }
  torch::Tensor forward(torch::Tensor images) override { return layers_->forward(images); }

 private:
  torch::nn::Sequential layers_ = nullptr;
};

int main() {
  paceline::Catalog catalog;
  catalog.models.add("my_mlp", {.summary = "two hidden layers", .smallest_input = 1, .make = [](const auto& options) {
                                  return std::make_shared<MyMlp>(options);
                                }});

  const paceline::Recipe recipe = paceline::parse_recipe(R"(
    [model]
    name = "my_mlp"
    [data]
    name = "fashion_mnist"
    train_samples = 20000
    test_samples = 2000
    [batch]
    global = 128
    [optimizer]
    rate = 0.1
    [schedule]
    name = "cosine"
    [train]
    epochs = 3
  )",
                                                         "own_model");

  const auto group = paceline::make_local_group();
  paceline::Trainer trainer(recipe, *group,
                            {.catalog = catalog});  // add .run_folder = {"runs/mine"} to keep the results
  const paceline::Summary summary = trainer.run();
  std::printf("%s: %lld parameters, test accuracy %.2f %%\n", summary.model.c_str(),
              static_cast<long long>(summary.parameters), 100 * summary.test_accuracy);
}
