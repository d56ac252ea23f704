// Whether a model's numbers can be used.
#pragma once

#include <string>

#include "paceline/comm/group.h"
#include "paceline/gradients/stale_sum.h"
#include "paceline/models/model.h"
#include "paceline/train/run_book.h"

namespace paceline {

// The name of the first parameter or buffer with an element that is not finite; empty: all are finite. Waits for the
// device.
std::string first_not_finite(const Model& model);

// For all ranks of a run, before a checkpoint or at its end: throws DivergenceError where a number of the model, or of
// the gradients under way (`sums` may be null), is not finite on any rank. Every rank calls it: weights are the same on
// every rank, statistics of batch normalisation are not.
void require_finite(const Model& model, StaleSum* sums, Group& group, const RunPlace& place);

}  // namespace paceline
