// StatisticsShare: the weight of one rank in the averaged running statistics.
//
// One process with all samples would move its running statistics r by r <- (1-m)·r + m·Σ q_k·x_k: q_k is rank k's share
// of the step's samples, x_k the statistics of these. Rank k keeps its own r_k and the weight w_k <- (1-m)·w_k + m·q_k.
// Then r = Σ w_k·r_k: exactly, if the rank moves r_k by momentum(); nearly, if it moves r_k by m and shares hardly
// change. A rank without samples keeps its r_k, and its weight fades as fast as running statistics forget. Pure.
#pragma once

#include "paceline/core/check.h"

namespace paceline {

class StatisticsShare {
 public:
  // `forget` is m: what a step replaces of the running statistics. 1: only the last step counts.
  explicit StatisticsShare(double forget) : forget_(forget), momentum_(forget) {}

  // At the beginning of each step of the group, also of one in which this rank has no samples.
  // REQUIRES: 0 <= samples <= of_all, 0 < of_all
  void begin_step(double samples, double of_all) {
    CHECK_TRUE(0 <= samples && samples <= of_all && of_all > 0, "{} of {} samples", samples, of_all);
    const double share = samples / of_all;
    const bool unchanged = weight_ < 0 || weight_ == share;
    weight_ = unchanged ? share : weight_ + forget_ * (share - weight_);
    if (weight_ < kForgotten) weight_ = 0;
    momentum_ = unchanged || share == 0 ? forget_ : forget_ * share / weight_;
  }

  // With which the step's samples enter this rank's running statistics.
  double momentum() const { return momentum_; }

  double weight() const { return weight_ < 0 ? 1 : weight_; }  // before the first step all ranks count alike
  void set_weight(double weight) { weight_ = weight; }         // as a checkpoint says

 private:
  static constexpr double kForgotten = 1e-12;  // below it a weight changes no f32 number
  double forget_, momentum_, weight_ = -1;
};

}  // namespace paceline
