// Our side of bench/data_parallel.py: one rank of a data-parallel training, started with torchrun's variables.
//
//   data_parallel_bench --model resnet18|mlp --batch B --steps N --warmup W [--no-sync] [--codec C] [--no-overlap]
//                       [--engine E] [--algorithm A] [--bucket BYTES] --json FILE
//
// Rank 0 writes {"step_ms": [...]}, the time of every step after the warm-up. --no-sync: each rank trains alone.
#include <ATen/Parallel.h>
#include <torch/nn.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "paceline/comm/engine_local.h"
#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/process_tuning.h"
#include "paceline/data_parallel.h"
#include "paceline/models/initialise.h"
#include "paceline/models/model.h"
#include "paceline/optim/optimizer.h"

namespace paceline {
namespace {

class Mlp : public Model {
 public:
  Mlp() {
    layers_ = register_module(
        "layers", torch::nn::Sequential(torch::nn::Linear(784, 4096), torch::nn::ReLU(), torch::nn::Linear(4096, 4096),
                                        torch::nn::ReLU(), torch::nn::Linear(4096, 10)));
  }
  torch::Tensor forward(torch::Tensor images) override { return layers_->forward(images); }

 private:
  torch::nn::Sequential layers_ = nullptr;
};

struct Arguments {
  std::string model = "resnet18", codec = "none", engine = "auto", algorithm = "hybrid", json;
  int64_t batch = 16, steps = 20, warmup = 5;
  uint64_t bucket_bytes = 0;
  bool no_sync = false, no_overlap = false;
};

std::shared_ptr<Model> make(const std::string& name) {
  if (name == "mlp") return std::make_shared<Mlp>();
  auto model = make_model(builtin_models(), name, {.classes = 10, .channels = 3, .image_size = 32});
  initialise(*model, "kaiming", 1);
  return model;
}

void bench(const Arguments& arguments) {
  at::set_num_threads(1);
  torch::manual_seed(1);
  World world = World::connect({.engine = arguments.engine});
  const auto alone = make_local_group();
  Group& group = arguments.no_sync ? *alone : world.group();
  const std::shared_ptr<Model> model = make(arguments.model);
  model->train();
  DataParallelOptions options = {
      .bucket_bytes = arguments.bucket_bytes, .overlap = !arguments.no_overlap, .algorithm = arguments.algorithm};
  if (arguments.codec != "none") options.codec = builtin_codecs().at(arguments.codec)({});
  DataParallel parallel(*model, group, options);
  const auto optimizer = builtin_optimizers().at("sgd")(parameters_of(*model), {.rate = 0.01, .momentum = 0.9});
  const torch::Tensor images =
      arguments.model == "mlp" ? torch::randn({arguments.batch, 784}) : torch::randn({arguments.batch, 3, 32, 32});
  const torch::Tensor labels = torch::randint(10, {arguments.batch}, torch::kInt64);

  const SteadyClock clock;
  std::vector<double> step_ms;
  world.group().barrier();
  for (int64_t step = 0; step < arguments.warmup + arguments.steps; ++step) {
    if (step == arguments.warmup) world.group().barrier();  // both begin together, also those that train alone
    const int64_t from_ns = clock.now_ns();
    const torch::Tensor loss = torch::cross_entropy_loss(model->forward(images), labels);
    if (arguments.no_sync) {
      model->zero_grad();
      loss.backward();
    } else {
      parallel.backward(loss, arguments.batch);
    }
    optimizer->step({.rate = 0.01, .momentum = 0.9});
    if (step >= arguments.warmup) step_ms.push_back(1e3 * seconds_between(from_ns, clock.now_ns()));
  }
  if (world.group().rank() == 0) replace_file(arguments.json, nlohmann::json{{"step_ms", step_ms}}.dump() + "\n");
  world.group().barrier();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::tune_process(argv);  // as the program does
  paceline::Arguments arguments;
  CLI::App app("One rank of a data-parallel training");
  app.add_option("--model", arguments.model);
  app.add_option("--batch", arguments.batch);
  app.add_option("--steps", arguments.steps);
  app.add_option("--warmup", arguments.warmup);
  app.add_option("--codec", arguments.codec);
  app.add_option("--engine", arguments.engine);
  app.add_option("--algorithm", arguments.algorithm);
  app.add_option("--bucket", arguments.bucket_bytes);
  app.add_option("--json", arguments.json)->required();
  app.add_flag("--no-sync", arguments.no_sync);
  app.add_flag("--no-overlap", arguments.no_overlap);
  CLI11_PARSE(app, argc, argv);
  try {
    paceline::bench(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "data_parallel_bench: %s\n", error.what());
    return 1;
  }
}
