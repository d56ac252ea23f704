#include "paceline/collectives/compressed.h"

#include <algorithm>
#include <utility>

#include "paceline/kernels/reduce.h"

namespace paceline {
namespace {

constexpr size_t kSlotAlignment = 128;

std::span<std::byte> bytes_in(TensorView view) { return {static_cast<std::byte*>(view.data), view.bytes()}; }

std::span<float> chunk_of(std::span<float> whole, size_t index, size_t parts) {
  return whole.empty() ? whole : chunk(view(whole), index, parts).as<float>();
}

}  // namespace

CompressedAllReduce::CompressedAllReduce(Group& group, const Codec& codec, size_t segment_elements)
    : group_(group), codec_(codec), segment_elements_(segment_elements) {
  for (Segment& segment : in_flight_) {
    for (auto* const lengths : {&segment.lengths, &segment.sent_lengths, &segment.sum_lengths})
      lengths->resize(ranks());
    for (auto* const works : {&segment.received, &segment.sent}) works->resize(ranks());
  }
}

void CompressedAllReduce::run(TensorView data, std::span<float> residual) {
  CHECK_EQ(name_of(data.dtype), name_of(DType::f32));
  CHECK_TRUE(residual.empty() || residual.size() == data.count, "{} elements, and a residual of {}", data.count,
             residual.size());
  group_.perform(Verb::all_reduce, data, ReduceOp::sum, -1, [&] { reduce(data, residual); });
}

// Three segments are on their way, in different stages. Whenever this rank waits for one, the link has the messages of
// another still to carry; all ranks send and receive in this order.
void CompressedAllReduce::reduce(TensorView data, std::span<float> residual) {
  const bool fixed = codec_.fixed_length() && codec_.fixed_sum_length();
  const size_t segments = fixed ? std::max<size_t>(1, data.count / segment_elements_) : 1;
  make_room(data, segments);
  for (size_t turn = 0; turn < segments + 2; ++turn) {
    if (turn < segments) {
      Segment& segment = in_flight_[turn % 3];
      segment.data = chunk(data, turn, segments);
      segment.residual = chunk_of(residual, turn, segments);
      send_contributions(segment);
    }
    if (turn >= 1 && turn - 1 < segments) send_sum(in_flight_[(turn - 1) % 3]);
    if (turn >= 2) receive_sums(in_flight_[(turn - 2) % 3]);
  }
}

// Depends on counts and settings only, so that all ranks allocate the same.
void CompressedAllReduce::make_room(TensorView data, size_t segments) {
  const auto slot_bytes = [&](const auto& most_bytes) {  // of all the sizes that chunks have
    size_t most = 0;
    for (const size_t segment : {size_t{0}, segments - 1})
      for (const size_t owner : {size_t{0}, ranks() - 1})
        most = std::max(most, most_bytes(chunk(chunk(data, segment, segments), owner, ranks()).count));
    return (most + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  };
  const size_t packed = slot_bytes([&](size_t count) { return codec_.most_bytes(count); });
  const size_t sum = slot_bytes([&](size_t count) { return codec_.most_sum_bytes(count, group_.size()); });
  const size_t bytes = ranks() * (2 * packed + sum);  // of a segment
  const size_t at_once = std::min<size_t>(segments, std::size(in_flight_));
  if (at_once * bytes > memory_.bytes()) {
    memory_ = {};
    memory_ = group_.allocate(at_once * bytes);
  }
  for (size_t i = 0; i < at_once; ++i) {
    const TensorView room = memory_.view(at_once * bytes, DType::u8).slice(i * bytes, bytes);
    in_flight_[i].outgoing = {room.slice(0, ranks() * packed), packed};
    in_flight_[i].incoming = {room.slice(ranks() * packed, ranks() * packed), packed};
    in_flight_[i].sums = {room.slice(2 * ranks() * packed, ranks() * sum), sum};
  }
}

// Pairwise, as Group::all_to_all: in step k with the ranks k places away. A chunk is packed while the one before it
// travels. Where lengths vary, each goes ahead of its chunk.
void CompressedAllReduce::send_contributions(Segment& segment) {
  if (!segment.residual.empty()) reduce_into(segment.data, view(segment.residual), ReduceOp::sum);
  const bool fixed = codec_.fixed_length();
  const size_t own_most = codec_.most_bytes(own_chunk(segment).count);
  for (size_t step = 1; step < ranks(); ++step) {
    const size_t target = (rank() + step) % ranks(), source = (rank() + ranks() - step) % ranks();
    int64_t& length = segment.lengths[source];
    const auto receive = [&] {
      return group_.receive(segment.incoming.of(source, static_cast<size_t>(length)), static_cast<int>(source));
    };
    length = static_cast<int64_t>(own_most);
    Work length_received, length_sent;
    if (fixed)
      segment.received[source] = receive();
    else
      length_received = group_.receive(view(segment.lengths).slice(source, 1), static_cast<int>(source));

    const size_t bytes = pack_chunk(segment, target);
    if (!fixed) {
      segment.sent_lengths[target] = static_cast<int64_t>(bytes);
      length_sent = group_.send(view(segment.sent_lengths).slice(target, 1), static_cast<int>(target));
    }
    segment.sent[target] = group_.send(segment.outgoing.of(target, bytes), static_cast<int>(target));
    if (!fixed) {
      length_received.wait();
      CHECK_LE(static_cast<uint64_t>(length), own_most);
      segment.received[source] = receive();
      length_sent.wait();
    }
  }
  segment.lengths[rank()] = static_cast<int64_t>(pack_chunk(segment, rank()));
}

size_t CompressedAllReduce::pack_chunk(Segment& segment, size_t owner) {
  const TensorView slot = segment.outgoing.of(owner, segment.outgoing.slot_bytes);
  return codec_.encode(chunk(segment.data, owner, ranks()).as<float>(), bytes_in(slot),
                       chunk_of(segment.residual, owner, ranks()));
}

// This rank's chunk is complete, and goes on its way around the ring.
void CompressedAllReduce::send_sum(Segment& segment) {
  for (Work& work : segment.received) work.wait();
  add_chunks(segment);
  agree_on_sum_lengths(segment, pack_sum(segment));
  if (ranks() == 1) return;
  const size_t previous = (rank() + ranks() - 1) % ranks(), next = (rank() + 1) % ranks();
  segment.next_sum = group_.receive(segment.sums.of(previous, static_cast<size_t>(segment.sum_lengths[previous])),
                                    static_cast<int>(previous));
  segment.own_sum =
      group_.send(segment.sums.of(rank(), static_cast<size_t>(segment.sum_lengths[rank()])), static_cast<int>(next));
}

// In the order of ranks, whatever came first: so the bits are the same in every run.
void CompressedAllReduce::add_chunks(Segment& segment) {
  const std::span<float> sum = own_chunk(segment).as<float>();
  for (size_t from = 0; from < ranks(); ++from) {
    const Slots& slots = from == rank() ? segment.outgoing : segment.incoming;
    const std::span<std::byte> packed = bytes_in(slots.of(from, static_cast<size_t>(segment.lengths[from])));
    if (from == 0)
      codec_.decode(packed, sum);
    else
      codec_.decode_add(packed, sum);
  }
}

// The sum gives way to what its packing loses: it comes back with the others' sums.
size_t CompressedAllReduce::pack_sum(Segment& segment) {
  const std::span<float> residual = chunk_of(segment.residual, rank(), ranks());
  const std::span<float> sum = own_chunk(segment).as<float>();
  const std::span<float> lost = residual.empty() ? residual : sum;
  const TensorView slot = segment.sums.of(rank(), segment.sums.slot_bytes);
  const size_t bytes = codec_.encode_sum(sum, bytes_in(slot), lost, group_.size());
  if (!residual.empty()) reduce_into(view(residual), own_chunk(segment), ReduceOp::sum);
  return bytes;
}

void CompressedAllReduce::agree_on_sum_lengths(Segment& segment, size_t own_bytes) {
  std::vector<int64_t>& lengths = segment.sum_lengths;
  if (codec_.fixed_sum_length()) {
    for (size_t owner = 0; owner < ranks(); ++owner)
      lengths[owner] =
          static_cast<int64_t>(codec_.most_sum_bytes(chunk(segment.data, owner, ranks()).count, group_.size()));
    CHECK_EQ(own_bytes, static_cast<size_t>(lengths[rank()]));
    return;
  }
  segment.sent_lengths[rank()] = static_cast<int64_t>(own_bytes);
  group_.all_gather(view(segment.sent_lengths).slice(rank(), 1), view(lengths));
  for (const int64_t length : lengths) CHECK_LE(static_cast<uint64_t>(length), segment.sums.slot_bytes);
}

// Around the ring, because between hosts each sum then travels once. Each is unpacked while the next one travels; the
// own one, too, so that all ranks hold the same.
void CompressedAllReduce::receive_sums(Segment& segment) {
  const int next = static_cast<int>((rank() + 1) % ranks());
  const int previous = static_cast<int>((rank() + ranks() - 1) % ranks());
  const auto packed = [&](size_t owner) {
    return segment.sums.of(owner, static_cast<size_t>(segment.sum_lengths[owner]));
  };
  Work received = std::exchange(segment.next_sum, {}), sent = std::exchange(segment.own_sum, {});
  for (size_t step = 0; step < ranks(); ++step) {
    const size_t here = (rank() + ranks() - step) % ranks();  // what the step before brought
    if (step > 0 && step + 1 < ranks()) {
      received = group_.receive(packed((here + ranks() - 1) % ranks()), previous);
      sent = group_.send(packed(here), next);
    }
    codec_.decode(bytes_in(packed(here)), chunk(segment.data, here, ranks()).as<float>());
    received.wait();
    sent.wait();
  }
  for (Work& work : segment.sent) work.wait();
}

Cost compressed_cost(const Cluster& cluster, double bytes, double ratio, double codec_s_per_byte, double sum_ratio) {
  const int ranks = cluster.ranks;
  const double chunk_bytes = bytes / ranks / ratio;
  const double sum_bytes = bytes / ranks / (sum_ratio > 0 ? sum_ratio : ratio);
  const int on_host = cluster.ranks_per_host;

  Cost cost;
  for (int step = 1; step < ranks; ++step) {
    // The last k ranks of a host, or all of it, have their peer on another.
    const int crossing = cluster.hosts > 1 ? std::min({step, ranks - step, on_host}) : 0;
    cost = cost + Cost{1, chunk_bytes, crossing * chunk_bytes, message_seconds(cluster, chunk_bytes, crossing)};
  }
  const int crossing = cluster.hosts > 1 ? 1 : 0;
  cost = cost + (ranks - 1) * Cost{1, sum_bytes, crossing * sum_bytes, message_seconds(cluster, sum_bytes, crossing)};
  // Packed: all, and the own chunk of the sum. Unpacked: as much as all for the own chunk, and the sum. Half of the
  // codec's time each.
  const double packing_s = bytes * codec_s_per_byte * (3 + 1.0 / ranks) / 2;
  const auto elements = static_cast<size_t>(bytes / sizeof(float));
  const size_t segments = sum_ratio > 0 ? 1 : std::max<size_t>(1, elements / CompressedAllReduce::kSegmentElements);
  cost.seconds = std::max(cost.seconds, packing_s) + std::min(cost.seconds, packing_s) / static_cast<double>(segments);
  return cost;
}

}  // namespace paceline
