// Evaluation: one pass over the test set without augmentation, shared among the ranks.
#pragma once

#include <optional>
#include <stop_token>

#include "paceline/comm/group.h"
#include "paceline/core/recipe.h"
#include "paceline/models/model.h"
#include "paceline/train/batches.h"

namespace paceline {

struct Evaluation {
  int64_t samples = 0;
  double loss = 0;  // mean per sample
  double top1 = 0;  // fractions of 1
  double top5 = 0;
};

class Evaluator {
 public:
  // REQUIRES: data.test is not empty. `stop` may ask any rank to break an evaluation off.
  Evaluator(const DatasetPair& data, const Recipe& recipe, Group& group, torch::Device device,
            std::stop_token stop = {});

  // Every rank calls it. Leaves the model in the mode it was in. Nothing: it was broken off, and is not to be called
  // again.
  std::optional<Evaluation> operator()(Model& model);

 private:
  bool is_broken_off();

  const Recipe::Loss loss_;
  Group& group_;
  const torch::Device device_;
  uint64_t samples_;
  const std::unique_ptr<Batches> batches_;
  const std::stop_token stop_;
};

}  // namespace paceline
