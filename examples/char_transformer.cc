// A small character-level transformer, trained over several processes: a model that is no convolutional network, with
// an embedding that only some of the characters use in each step, and two passes per update.
//
//   paceline launch -n 2 -- example_char_transformer
//
// Rank 0 prints one line, such as:  2 ranks: loss 3.36 -> 0.08 per character
#include <torch/torch.h>
#include <cstdio>
#include <string>

#include "paceline/data_parallel.h"

namespace {

constexpr int64_t kWindow = 32, kWidth = 48, kHeads = 4, kLetters = 27;

struct Transformer : torch::nn::Module {
  Transformer() {
    letters = register_module("letters", torch::nn::Embedding(kLetters, kWidth));
    places = register_parameter("places", 0.02 * torch::randn({kWindow, 1, kWidth}));
    auto layer = torch::nn::TransformerEncoderLayer(
        torch::nn::TransformerEncoderLayerOptions(kWidth, kHeads).dim_feedforward(4 * kWidth).dropout(0));
    encoder = register_module("encoder", torch::nn::TransformerEncoder(layer, 2));
    head = register_module("head", torch::nn::Linear(kWidth, kLetters));
  }
  // text: [window, batch] -> scores of the next letter: [window, batch, letters]
  torch::Tensor forward(const torch::Tensor& text) {
    const torch::Tensor past_only = torch::triu(torch::full({kWindow, kWindow}, -INFINITY), 1);
    return head->forward(encoder->forward(letters->forward(text) + places, past_only));
  }
  torch::nn::Embedding letters = nullptr;
  torch::nn::TransformerEncoder encoder = nullptr;
  torch::nn::Linear head = nullptr;
  torch::Tensor places;
};

// A text that can be learnt: a handful of words in a fixed order of random length.
torch::Tensor text_of(int64_t length) {
  const std::string words[] = {"ring ", "torus ", "bucket ", "gradient ", "rank "};
  std::string text;
  for (uint64_t i = 0; static_cast<int64_t>(text.size()) < length; ++i) text += words[i * i % 7 % 5];
  torch::Tensor codes = torch::empty({length}, torch::kInt64);
  for (int64_t i = 0; i < length; ++i) codes[i] = text[i] == ' ' ? 26 : text[i] - 'a';
  return codes;
}

}  // namespace

int main() {
  paceline::World world = paceline::World::connect({});
  torch::manual_seed(1);
  at::set_num_threads(1);
  Transformer model;
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(3e-3));
  paceline::DataParallel parallel(model, world.group());

  const torch::Tensor text = text_of(20'000);
  const auto loss_of = [&](int64_t step, int64_t part) {  // of this rank's 8 windows
    std::vector<torch::Tensor> inputs, targets;
    for (int64_t row = 0; row < 8; ++row) {
      const int64_t number = ((step * 2 + part) * parallel.size() + parallel.rank()) * 8 + row;
      const int64_t begin = number * 7919 % (text.size(0) - kWindow - 1);
      inputs.push_back(text.narrow(0, begin, kWindow));
      targets.push_back(text.narrow(0, begin + 1, kWindow));
    }
    const torch::Tensor scores = model.forward(torch::stack(inputs, 1));
    return torch::cross_entropy_loss(scores.reshape({-1, kLetters}), torch::stack(targets, 1).reshape(-1));
  };
  double first = 0, last = 0;
  for (int64_t step = 0; step < 80; ++step) {
    const torch::Tensor one = loss_of(step, 0);
    parallel.accumulate(one, 8);
    parallel.backward(loss_of(step, 1), 8);
    optimizer.step();
    last = parallel.mean(one.item<double>());
    if (step == 0) first = last;
  }
  if (parallel.rank() == 0)
    std::printf("%d rank%s: loss %.2f -> %.2f per character\n", parallel.size(), parallel.size() == 1 ? "" : "s", first,
                last);
}
