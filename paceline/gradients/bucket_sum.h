// BucketSum: the sum of one bucket over the ranks, through a codec. No torch here: a bucket is a run of f32.
//
// What a lossy codec leaves out stays in this rank's residual and joins the next step. With momentum correction (for
// codecs that send few elements) the momentum is gathered before anything is left out, so that an element which waits
// for ten steps arrives with the momentum of ten; the optimizer then has none.
//
// A bucket whose sum does not fit fp16 travels once more, as f32: nothing is cut off. All ranks see the same sum, so
// all decide the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/compressed.h"
#include "paceline/comm/group.h"

namespace paceline {

struct BucketSumOptions {
  std::shared_ptr<Codec> codec;    // null: none
  bool error_feedback = true;      // for codecs that are lossy
  double momentum_correction = 0;  // the momentum; 0: off
};

class BucketSum {
 public:
  // `counts`: elements of each bucket. Every rank calls it. `all_reduce` works on `group`; both must outlive this.
  BucketSum(Group& group, AllReduce& all_reduce, std::vector<size_t> counts, BucketSumOptions options);

  // Every rank calls it with the same bucket; `data` becomes the sum. Allocates nothing once every bucket was seen.
  void run(size_t bucket, TensorView data);

  // What this rank still owes; one run per bucket, empty without error feedback. And the gathered momentum, likewise.
  std::vector<std::vector<float>>& residuals() { return residuals_; }
  std::vector<std::vector<float>>& momenta() { return momenta_; }

 private:
  void sum_elementwise(TensorView data);
  void sum_packed(size_t bucket, TensorView data);

  Group& group_;
  AllReduce& all_reduce_;
  BucketSumOptions options_;
  Memory wire_;
  std::unique_ptr<CompressedAllReduce> compressed_;
  std::vector<std::vector<float>> residuals_;
  std::vector<std::vector<float>> momenta_;
};

}  // namespace paceline
