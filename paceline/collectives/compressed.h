// CompressedAllReduce: the sum over ranks of packed buffers. 2(p-1)α + (n/r)(p-1)/p · 2β, with r the codec's ratio, and
// what packing costs: every rank packs (1 + 1/p) n and unpacks 2n.
//
// Every rank packs each chunk for the rank that owns it; the owner unpacks and adds them in rank order, and packs the
// sum for all. A long buffer goes in segments, so that one is packed while another travels: then the longer of both
// counts, not their sum. Best where the link is slow: compare compressed_cost with the others', or ask
// codecs/codec_cost.h.
#pragma once

#include <span>
#include <vector>

#include "paceline/codecs/codec.h"
#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

class CompressedAllReduce {
 public:
  static constexpr size_t kSegmentElements = 1 << 20;  // half a megabyte of packed int8 for each of two ranks

  // Both must outlive it. Every rank gives the same codec with the same settings. Codecs whose packed lengths vary take
  // a buffer as one segment.
  CompressedAllReduce(Group& group, const Codec& codec, size_t segment_elements = kSegmentElements);

  // Every rank's f32 `data` becomes the sum over ranks of what their packed buffers say: the same bits on every rank
  // and in every run. Any count, also 0. Allocates nothing once it has seen its largest buffer.
  //
  // Error feedback, where `residual` is not empty: it is added to `data` first. Afterwards it holds what packing lost
  // of this rank's data, and, in the chunk that this rank owns, of the sum too: over time nothing is lost.
  // REQUIRES: residual is empty, or has data.count elements; on every rank the same.
  void run(TensorView data, std::span<float> residual);

 private:
  // Room for packed chunks, a slot of the same size for each rank.
  struct Slots {
    TensorView of(size_t rank, size_t bytes) const { return room.slice(rank * slot_bytes, bytes); }
    TensorView room;
    size_t slot_bytes = 0;
  };

  struct Segment {
    TensorView data;
    std::span<float> residual;
    Slots outgoing;                     // this rank's chunks, by owner
    Slots incoming;                     // all ranks' contributions to this rank's chunk; its own stays in outgoing
    Slots sums;                         // by owner
    std::vector<int64_t> lengths;       // of what is in incoming: bytes
    std::vector<int64_t> sent_lengths;  // of what is in outgoing
    std::vector<int64_t> sum_lengths;   // of what is in sums
    std::vector<Work> received, sent;   // contributions, by rank
    Work next_sum, own_sum;             // the first hop around the ring
  };

  void reduce(TensorView data, std::span<float> residual);
  void make_room(TensorView data, size_t segments);
  void send_contributions(Segment& segment);
  void send_sum(Segment& segment);
  void receive_sums(Segment& segment);

  size_t pack_chunk(Segment& segment, size_t owner);
  void add_chunks(Segment& segment);
  size_t pack_sum(Segment& segment);
  void agree_on_sum_lengths(Segment& segment, size_t own_bytes);
  TensorView own_chunk(const Segment& segment) const { return chunk(segment.data, rank(), ranks()); }

  size_t ranks() const { return static_cast<size_t>(group_.size()); }
  size_t rank() const { return static_cast<size_t>(group_.rank()); }

  Group& group_;
  const Codec& codec_;
  const size_t segment_elements_;
  Memory memory_;
  Segment in_flight_[3];  // one sends contributions, one its sum, one receives sums
};

// `ratio` as Codec::ratio(); sparse sums have a `sum_ratio` of their own (0: the same). `codec_s_per_byte`: to pack and
// to unpack a byte of f32 (codecs/codec_cost.h). Sparse ones go as one segment.
Cost compressed_cost(const Cluster& cluster, double bytes, double ratio, double codec_s_per_byte, double sum_ratio = 0);

}  // namespace paceline
