// StepUndo: what forward, backward and the sum over the ranks change before anybody knows that the step will be
// skipped: statistics of batch normalisation, and what a lossy codec owes. An overflow would poison both for ever.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/gradients/reducer.h"
#include "paceline/models/layers.h"
#include "paceline/models/model.h"

namespace paceline {

class StepUndo {
 public:
  StepUndo(const Model& model, Reducer& reducer);

  void remember();  // before the step
  void undo();      // everything is again as it was then

 private:
  struct Buffer {
    torch::Tensor live, kept;
  };
  struct Normalisation {
    BatchNorm2d* layer;
    double correction;
  };

  Reducer& reducer_;
  std::vector<Buffer> buffers_;
  std::vector<Normalisation> normalisations_;
  std::map<std::string, torch::Tensor> debts_;
};

// The codec's debts are of gradients with a loss scale; when that changes, they follow.
void scale_debts(Reducer& reducer, double factor);

}  // namespace paceline
