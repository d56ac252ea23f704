// A program with a model of its own and every command of paceline:
//
//   own_command_line train mine.toml --ranks 2          # mine.toml: [model] name = "my_mlp"
//   own_command_line eval runs/mine
#include <torch/nn.h>

#include "paceline/command_line.h"

struct MyMlp : paceline::Model {
  explicit MyMlp(const paceline::ModelOptions& options)
      : hidden(register_module("hidden",
                               torch::nn::Linear(options.channels * options.image_size * options.image_size, 64))),
        head(register_module("head", torch::nn::Linear(64, options.classes))) {}
  torch::Tensor forward(torch::Tensor images) override { return head(hidden(images.flatten(1)).relu()); }
  torch::nn::Linear hidden, head;
};

int main(int argc, char** argv) {
  paceline::Catalog catalog;
  catalog.models.add("my_mlp", {"two layers", 1, [](const auto& options) { return std::make_shared<MyMlp>(options); }});
  return paceline::command_line(argc, argv, catalog);
}
