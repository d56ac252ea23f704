// Barzilai and Borwein's rate from a start ten times off, beside the best constant rate: steps and gradients until a
// network has reached a test accuracy, on Fashion-MNIST.
//
//   rate_bench [--model mlp|small_cnn] [--batch N] [--target A] [--seeds N]
//
// Plain SGD without momentum. The constant rate is tuned first: the one of a grid of powers of 2 that is quickest in
// the mean of the seeds. A gradient that only measures the curvature counts as one; a loss that only guards a step
// counts as a third of one (a forward pass of a forward and a backward pass that is twice as long).
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "paceline/core/error.h"
#include "paceline/models/layers.h"
#include "paceline/optim/borrowed_weights.h"
#include "paceline/optim/curvature_rate.h"
#include "paceline/train/assemble.h"
#include "paceline/train/batches.h"
#include "paceline/train/loss.h"

namespace paceline {
namespace {

struct Settings {
  std::string model = "mlp";
  int64_t batch = 256;
  double target = 0.84;
  int seeds = 5;
  int most_steps = 4000;
};

class Mlp : public Model {
 public:
  explicit Mlp(const ModelOptions& options) {
    first_ = register_module("first", std::make_shared<Linear>(options.image_size * options.image_size, 128));
    second_ = register_module("second", std::make_shared<Linear>(128, options.classes));
  }
  torch::Tensor forward(torch::Tensor images) override {
    return second_->forward(first_->forward(images.flatten(1)).relu());
  }

 private:
  std::shared_ptr<Linear> first_, second_;
};

Catalog catalog_with_mlp() {
  Catalog catalog;
  catalog.models.add("mlp", {"784-128-10", 1, [](const ModelOptions& o) { return std::make_shared<Mlp>(o); }});
  return catalog;
}

Recipe recipe_for(const Settings& settings, int seed) {
  return parse_recipe(
      fmt::format("[model]\nname = \"{}\"\n[data]\nname = \"fashion_mnist\"\ntest_samples = 2000\n[batch]\nglobal = "
                  "{}\n[train]\nseed = {}\n",
                  settings.model, settings.batch, seed),
      "rate_bench", {});
}

// One network on its way to the target.
class Descent {
 public:
  Descent(const Settings& settings, int seed)
      : recipe_(recipe_for(settings, seed)), catalog_(catalog_with_mlp()), data_(open_data(recipe_, catalog_)) {
    model_ = build_model(recipe_, catalog_, *data_.train);
    parameters_ = parameters_of(*model_);
    const auto open = [&](const std::shared_ptr<const Dataset>& set, uint64_t batch) {
      return make_batches({set, data_.normalisation, {.global_batch = batch, .seed = recipe_.train.seed}}, torch::kCPU,
                          {}, "never");
    };
    batches_ = open(data_.train, static_cast<uint64_t>(settings.batch));
    tests_ = open(data_.test, data_.test->size());
    test_ = tests_->next();
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  CurvatureRate::Batch batch() const {
    return {.samples = static_cast<double>(batch_.count), .data_samples = static_cast<double>(data_.train->size())};
  }

  void make_gradient() {
    batch_ = batches_->next();
    for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
    const torch::Tensor own = loss();
    own.backward();
    step_loss_ = own.item<double>();
    spent += 1;
    ++steps;
  }
  void move(double rate) {
    const torch::NoGradGuard no_grad;
    for (const Parameter& parameter : parameters_) parameter.tensor.sub_(parameter.tensor.grad(), rate);
  }
  bool is_lost() {
    const torch::NoGradGuard no_grad;
    return !std::isfinite(loss().item<double>());
  }
  double accuracy() {
    const torch::NoGradGuard no_grad;
    model_->eval();
    const torch::Tensor logits = model_->forward(test_.images);
    model_->train();
    return correct_top1(logits, test_.labels).item<double>() / static_cast<double>(test_.count);
  }

  CurvatureRate::Probes probes() {
    return {.gradient_at =
                [this](const CurvatureRate::Tensors& weights) {
                  spent += 1;
                  const BorrowedWeights borrowed(parameters_, weights);
                  CurvatureRate::Tensors tensors;
                  for (const Parameter& parameter : parameters_) tensors.push_back(parameter.tensor);
                  return torch::autograd::grad({loss()}, tensors);
                },
            .loss_at =
                [this](const CurvatureRate::Tensors& weights) {
                  spent += 1.0 / 3;
                  const torch::NoGradGuard no_grad;
                  const BorrowedWeights borrowed(parameters_, weights);
                  return loss().item<double>();
                },
            .loss = [this] { return step_loss_; }};
  }

  double spent = 0;  // in gradients
  int steps = 0;

 private:
  torch::Tensor loss() {
    return loss_sum(recipe_.loss, model_->forward(batch_.images), batch_.labels) / static_cast<double>(batch_.count);
  }

  Recipe recipe_;
  Catalog catalog_;
  DatasetPair data_;
  std::shared_ptr<Model> model_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<Batches> batches_, tests_;
  TrainingBatch batch_, test_;  // in their memory
  double step_loss_ = 0;
};

struct Result {
  double steps = 0, gradients = 0;
  int reached = 0;
};

// Means over the seeds that reached the target; gives a seed up after most_steps.
Result descend(const Settings& settings, const std::function<std::function<double(Descent&)>()>& make_rate) {
  Result result;
  for (int seed = 1; seed <= settings.seeds; ++seed) {
    Descent descent(settings, seed);
    const auto rate = make_rate();
    constexpr int kStepsBetweenTests = 5;
    while (descent.steps < settings.most_steps) {
      descent.make_gradient();
      descent.move(rate(descent));
      if (descent.steps % kStepsBetweenTests != 0) continue;
      if (descent.is_lost()) break;
      if (descent.accuracy() < settings.target) continue;
      ++result.reached;
      result.steps += descent.steps;
      result.gradients += descent.spent;
      break;
    }
  }
  result.steps /= std::max(result.reached, 1);
  result.gradients /= std::max(result.reached, 1);
  return result;
}

Result with_constant(const Settings& settings, double rate) {
  return descend(settings, [rate] { return [rate](Descent&) { return rate; }; });
}

Result with_barzilai_borwein(const Settings& settings, const BarzilaiBorweinOptions& options) {
  return descend(settings, [&options] {
    return [&options, rate = std::shared_ptr<CurvatureRate>()](Descent& descent) mutable {
      if (!rate) rate = std::make_shared<CurvatureRate>(descent.parameters(), options);
      return rate->next(descent.batch(), descent.probes());
    };
  });
}

void run(const Settings& settings) {
  const auto print = [&](const std::string& what, const Result& result, const Result& tuned) {
    if (result.reached < settings.seeds)
      fmt::print("| {} | {} of {} seeds | | |\n", what, result.reached, settings.seeds);
    else
      fmt::print("| {} | {:.0f} | {:.0f} | {:.2f} |\n", what, result.steps, result.gradients,
                 result.gradients / tuned.gradients);
    std::fflush(stdout);
  };
  fmt::print(
      "{}, batch {}, to {:.0f} %, mean of {} seeds\n\n| rate | steps | gradients | of the tuned one's |\n"
      "| --- | --- | --- | --- |\n",
      settings.model, settings.batch, 100 * settings.target, settings.seeds);
  double best = 0;
  Result tuned = {.gradients = INFINITY};
  for (double rate = 1.0 / 64; rate <= 4; rate *= 2) {
    const Result result = with_constant(settings, rate);
    if (result.reached == settings.seeds && result.gradients < tuned.gradients) best = rate, tuned = result;
  }
  print(fmt::format("constant, {:.3g} (tuned)", best), tuned, tuned);
  for (const double times : {0.1, 10.0}) {
    const double start = times * best, most = 100 * best;
    print(fmt::format("constant, {:.3g}", start), with_constant(settings, start), tuned);
    const auto from = [&](const char* how, const BarzilaiBorweinOptions& options) {
      print(fmt::format("from {:.3g}, {}", start, how), with_barzilai_borwein(settings, options), tuned);
    };
    BarzilaiBorweinOptions published = published_barzilai_borwein(start, most);
    from("published", published);
    published.smoothing = 0.2;
    from("published, q = 0.2", published);
    published.secant = Secant::cheap;
    from("published, q = 0.2, cheap", published);
    from("useful", useful_barzilai_borwein(start, most));
    from("steady", steady_barzilai_borwein(start, most));
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::Settings settings;
  CLI::App app("Barzilai and Borwein's rate from a start ten times off");
  app.add_option("--model", settings.model);
  app.add_option("--batch", settings.batch);
  app.add_option("--target", settings.target);
  app.add_option("--seeds", settings.seeds);
  app.add_option("--most-steps", settings.most_steps);
  CLI11_PARSE(app, argc, argv);
  try {
    paceline::run(settings);
  } catch (const paceline::Error& error) {
    fmt::print(stderr, "rate_bench: {}\n", error.what());
    return 1;
  }
}
