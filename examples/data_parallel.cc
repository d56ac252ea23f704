// Trains a torch::nn module of your own over several processes, in your own loop.
//
//   paceline launch -n 4 -- example_data_parallel        (or mpirun, srun, torchrun; alone it is one rank)
//
// Rank 0 prints one line, such as:  2 ranks: accuracy 100.0 %, weights 12.34535
#include <torch/torch.h>
#include <cstdio>

#include "paceline/data_parallel.h"

// Two spirals that wind around each other: point i of `count`, and which spiral it is on.
struct Spirals : torch::data::Dataset<Spirals> {
  explicit Spirals(size_t count) : count_(count) {}
  torch::data::Example<> get(size_t index) override {
    const double angle = 6.0 * static_cast<double>(index / 2) / static_cast<double>(count_ / 2) + 0.5;
    const double side = index % 2 == 0 ? 1 : -1;
    return {torch::tensor({side * angle * std::cos(angle), side * angle * std::sin(angle)}, torch::kFloat32) / 6.5,
            torch::tensor(static_cast<int64_t>(index % 2))};
  }
  torch::optional<size_t> size() const override { return count_; }

 private:
  size_t count_;
};

int main() {
  paceline::World world = paceline::World::connect({});
  torch::manual_seed(1);
  at::set_num_threads(1);
  torch::nn::Sequential model(torch::nn::Linear(2, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64), torch::nn::Tanh(),
                              torch::nn::Linear(64, 2));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  paceline::DataParallel parallel(*model, world.group());  // every rank has rank 0's weights now

  // Each rank has its own part of every epoch; 1,999 points: the parts are not equally long.
  const size_t ranks = static_cast<size_t>(parallel.size()), rank = static_cast<size_t>(parallel.rank());
  auto data = Spirals(1999).map(torch::data::transforms::Stack<>());
  torch::data::samplers::DistributedRandomSampler sampler(1999, ranks, rank, /*allow_duplicates=*/false);
  auto loader = torch::data::make_data_loader(std::move(data), sampler, 64 / ranks);
  double correct = 0, seen = 0;
  for (size_t epoch = 0; epoch < 60; ++epoch) {
    correct = seen = 0;
    for (auto& batch : *loader) {
      const torch::Tensor scores = model->forward(batch.data);
      parallel.backward(torch::cross_entropy_loss(scores, batch.target), batch.data.size(0));
      optimizer.step();
      correct += scores.argmax(1).eq(batch.target).sum().item<double>();
      seen += static_cast<double>(batch.data.size(0));
    }
    parallel.join([&] { optimizer.step(); });  // the others may have one batch more
  }

  const double accuracy = parallel.sum(correct) / parallel.sum(seen);
  if (parallel.rank() == 0)
    std::printf("%d rank%s: accuracy %.1f %%, weights %.5f\n", parallel.size(), parallel.size() == 1 ? "" : "s",
                100 * accuracy, model->parameters()[0].norm().item<double>());
}
