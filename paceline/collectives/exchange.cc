#include "paceline/collectives/exchange.h"

#include <algorithm>
#include <functional>

namespace paceline {
namespace {

bool overlap(TensorView a, TensorView b) {
  const auto begin = [](TensorView view) { return static_cast<const std::byte*>(view.data); };
  const std::less<const std::byte*> before;
  return a.count > 0 && b.count > 0 && before(begin(a), begin(b) + b.bytes()) && before(begin(b), begin(a) + a.bytes());
}

}  // namespace

void ExchangeSequence::add(const Exchange& exchange) {
  CHECK_LT(count_, kMost);
  exchanges_[count_++] = exchange;
}

void ExchangeSequence::clear() {
  CHECK_EQ(current_, count_);
  count_ = current_ = 0;
}

void ExchangeSequence::start(Group& group, ReduceOp op) {
  group_ = &group;
  op_ = op;
  current_ = 0;
  next_posted_ = false;
  if (count_ == 0) return;

  std::array<size_t, 2> largest = {0, 0};
  for (int index = 0; index < count_; ++index)
    if (exchanges_[index].arrival == Exchange::Arrival::is_added)
      largest[index % 2] = std::max(largest[index % 2], exchanges_[index].in.count);
  const TensorView both = group.scratch(largest[0] + largest[1], exchanges_[0].in.dtype);
  rooms_ = {both.first(largest[0]), both.slice(largest[0], largest[1])};
  begin_current();
}

TensorView ExchangeSequence::room(int index) const {
  const Exchange& exchange = exchanges_[index];
  return exchange.arrival == Exchange::Arrival::replaces ? exchange.in : rooms_[index % 2].first(exchange.in.count);
}

void ExchangeSequence::post_receive(int index) {
  const TensorView arriving = room(index);
  if (arriving.count == 0) return;
  const int pieces = pieces_of(arriving.bytes());
  for (int piece = 0; piece < pieces; ++piece)
    received_[index % 2][piece] = group_->receive(chunk(arriving, piece, pieces), exchanges_[index].peer);
}

void ExchangeSequence::post_send() {
  const TensorView out = exchanges_[current_].out;
  if (out.count == 0) return;
  const int pieces = pieces_of(out.bytes());
  for (int piece = 0; piece < pieces; ++piece)
    sent_[piece] = group_->send(chunk(out, piece, pieces), exchanges_[current_].peer);
}

// Where halving turns into doubling, the next message takes the place of the one that is still being sent.
bool ExchangeSequence::may_post_next() const {
  return current_ + 1 < count_ && !overlap(room(current_ + 1), exchanges_[current_].out);
}

void ExchangeSequence::begin_current() {
  if (!next_posted_) post_receive(current_);
  next_posted_ = may_post_next();
  if (next_posted_) post_receive(current_ + 1);
  post_send();
}

void ExchangeSequence::complete_current() {
  const Exchange& exchange = exchanges_[current_];
  const TensorView arriving = room(current_);
  const int pieces = pieces_of(arriving.bytes());
  for (int piece = 0; piece < pieces; ++piece) {
    received_[current_ % 2][piece].wait();
    if (exchange.arrival == Exchange::Arrival::is_added && arriving.count > 0)
      group_->reduce_local(chunk(exchange.in, piece, pieces), chunk(arriving, piece, pieces), op_);
  }
  for (Work& work : sent_) work.wait();
  if (++current_ < count_) begin_current();
}

bool ExchangeSequence::advance() {
  const auto all_done = [](Works& works) { return std::ranges::all_of(works, [](Work& work) { return work.done(); }); };
  while (current_ < count_ && all_done(received_[current_ % 2]) && all_done(sent_)) complete_current();
  return current_ == count_;
}

void ExchangeSequence::finish() {
  while (current_ < count_) complete_current();
}

}  // namespace paceline
