#include "paceline/collectives/compressed.h"

#include <algorithm>

#include "paceline/kernels/reduce.h"

namespace paceline {
namespace {

constexpr size_t kSlotAlignment = 128;

std::span<std::byte> bytes_in(TensorView view) { return {static_cast<std::byte*>(view.data), view.bytes()}; }

std::span<float> chunk_of(std::span<float> whole, size_t index, size_t parts) {
  return whole.empty() ? whole : chunk(view(whole), index, parts).as<float>();
}

}  // namespace

CompressedAllReduce::CompressedAllReduce(Group& group, const Codec& codec)
    : group_(group), codec_(codec), lengths_(group.size()), sent_lengths_(group.size()) {}

void CompressedAllReduce::run(TensorView data, std::span<float> residual) {
  CHECK_EQ(name_of(data.dtype), name_of(DType::f32));
  CHECK_TRUE(residual.empty() || residual.size() == data.count, "{} elements, and a residual of {}", data.count,
             residual.size());
  group_.perform(Verb::all_reduce, data, ReduceOp::sum, -1, [&] { reduce(data, residual); });
}

void CompressedAllReduce::reduce(TensorView data, std::span<float> residual) {
  make_room(data);
  if (!residual.empty()) reduce_into(data, view(residual), ReduceOp::sum);
  exchange_chunks(data, residual);

  const TensorView mine = chunk(data, rank(), ranks());
  add_chunks(mine);
  const size_t sum_bytes = pack_sum(mine, chunk_of(residual, rank(), ranks()));
  pass_sums_around(data, sum_bytes);
}

// Depends on counts and settings only, so that all ranks allocate the same.
void CompressedAllReduce::make_room(TensorView data) {
  const auto slot_bytes = [&](const auto& most_bytes) {  // of the two sizes that chunks have
    const size_t most =
        std::max(most_bytes(chunk(data, 0, ranks()).count), most_bytes(chunk(data, ranks() - 1, ranks()).count));
    return (most + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  };
  const size_t packed = slot_bytes([&](size_t count) { return codec_.most_bytes(count); });
  const size_t sum = slot_bytes([&](size_t count) { return codec_.most_sum_bytes(count, group_.size()); });
  const size_t bytes = ranks() * (2 * packed + sum);
  if (bytes > memory_.bytes()) {
    memory_ = {};
    memory_ = group_.allocate(bytes);
  }
  const TensorView room = memory_.view(bytes, DType::u8);
  outgoing_ = {room.slice(0, ranks() * packed), packed};
  incoming_ = {room.slice(ranks() * packed, ranks() * packed), packed};
  sums_ = {room.slice(2 * ranks() * packed, ranks() * sum), sum};
}

size_t CompressedAllReduce::pack_chunk(TensorView data, std::span<float> residual, size_t owner) {
  const TensorView slot = outgoing_.of(owner, outgoing_.slot_bytes);
  return codec_.encode(chunk(data, owner, ranks()).as<float>(), bytes_in(slot), chunk_of(residual, owner, ranks()));
}

// Pairwise, as Group::all_to_all: in step k with the ranks k places away. A chunk is packed while the one before it
// travels. Where lengths vary, each goes ahead of its chunk.
void CompressedAllReduce::exchange_chunks(TensorView data, std::span<float> residual) {
  const bool fixed = codec_.fixed_length();
  const size_t own_most = codec_.most_bytes(chunk(data, rank(), ranks()).count);
  Work received, sent;  // of the step before
  for (size_t step = 1; step < ranks(); ++step) {
    const size_t target = (rank() + step) % ranks(), source = (rank() + ranks() - step) % ranks();
    const auto receive = [&] {
      return group_.receive(incoming_.of(source, static_cast<size_t>(lengths_[source])), static_cast<int>(source));
    };
    lengths_[source] = static_cast<int64_t>(own_most);
    Work length_received, length_sent;
    Work receiving;
    if (fixed)
      receiving = receive();
    else
      length_received = group_.receive(view(lengths_).slice(source, 1), static_cast<int>(source));

    const size_t bytes = pack_chunk(data, residual, target);
    if (!fixed) {
      sent_lengths_[target] = static_cast<int64_t>(bytes);
      length_sent = group_.send(view(sent_lengths_).slice(target, 1), static_cast<int>(target));
    }
    Work sending = group_.send(outgoing_.of(target, bytes), static_cast<int>(target));
    if (!fixed) {
      length_received.wait();
      CHECK_LE(static_cast<uint64_t>(lengths_[source]), own_most);
      receiving = receive();
      length_sent.wait();
    }
    received.wait();
    sent.wait();
    received = receiving;
    sent = sending;
  }
  lengths_[rank()] = static_cast<int64_t>(pack_chunk(data, residual, rank()));
  received.wait();
  sent.wait();
}

// In the order of ranks, whatever came first: so the bits are the same in every run.
void CompressedAllReduce::add_chunks(TensorView mine) {
  const std::span<float> sum = mine.as<float>();
  for (size_t from = 0; from < ranks(); ++from) {
    const Slots& slots = from == rank() ? outgoing_ : incoming_;
    const std::span<std::byte> packed = bytes_in(slots.of(from, static_cast<size_t>(lengths_[from])));
    if (from == 0)
      codec_.decode(packed, sum);
    else
      codec_.decode_add(packed, sum);
  }
}

// The sum gives way to what its packing loses: it comes back with the others' sums.
size_t CompressedAllReduce::pack_sum(TensorView mine, std::span<float> residual) {
  const std::span<float> sum = mine.as<float>();
  const std::span<float> lost = residual.empty() ? residual : sum;
  const size_t bytes = codec_.encode_sum(sum, bytes_in(sums_.of(rank(), sums_.slot_bytes)), lost, group_.size());
  if (!residual.empty()) reduce_into(view(residual), mine, ReduceOp::sum);
  return bytes;
}

// Around the ring, because between hosts each sum then travels once. Each is unpacked while the next one travels; the
// own one, too, so that all ranks hold the same.
void CompressedAllReduce::pass_sums_around(TensorView data, size_t own_bytes) {
  if (codec_.fixed_sum_length()) {
    for (size_t owner = 0; owner < ranks(); ++owner)
      lengths_[owner] = static_cast<int64_t>(codec_.most_sum_bytes(chunk(data, owner, ranks()).count, group_.size()));
    CHECK_EQ(own_bytes, static_cast<size_t>(lengths_[rank()]));
  } else {
    sent_lengths_[rank()] = static_cast<int64_t>(own_bytes);
    group_.all_gather(view(sent_lengths_).slice(rank(), 1), view(lengths_));
    for (const int64_t length : lengths_) CHECK_LE(static_cast<uint64_t>(length), sums_.slot_bytes);
  }
  const int next = static_cast<int>((rank() + 1) % ranks());
  const int previous = static_cast<int>((rank() + ranks() - 1) % ranks());
  const auto packed = [&](size_t owner) { return sums_.of(owner, static_cast<size_t>(lengths_[owner])); };
  for (size_t step = 0; step < ranks(); ++step) {
    const size_t here = (rank() + ranks() - step) % ranks();  // what the step before brought
    Work received, sent;
    if (step + 1 < ranks()) {
      received = group_.receive(packed((here + ranks() - 1) % ranks()), previous);
      sent = group_.send(packed(here), next);
    }
    codec_.decode(bytes_in(packed(here)), chunk(data, here, ranks()).as<float>());
    received.wait();
    sent.wait();
  }
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
  cost.seconds += bytes * codec_s_per_byte * (3 + 1.0 / ranks) / 2;
  return cost;
}

}  // namespace paceline
