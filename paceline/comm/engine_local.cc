#include "paceline/comm/engine_local.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline {
namespace {

// What the threads share: the place where they meet, and the buffers that they show each other there.
class Meeting {
 public:
  explicit Meeting(int ranks) : shown_(ranks) {}

  int ranks() const { return static_cast<int>(shown_.size()); }

  void show(int rank, TensorView data) { shown_[rank] = data; }
  const std::vector<TensorView>& shown() const { return shown_; }

  // Waits until all ranks are here.
  void meet(int rank) {
    std::unique_lock lock(mutex_);
    require_all_alive(rank);
    const uint64_t round = round_;
    if (++arrived_ == ranks()) {
      arrived_ = 0;
      ++round_;
      lock.unlock();
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round || failed_rank_ >= 0; });
    if (round_ == round) require_all_alive(rank);
  }

  void fail(int rank) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_rank_ < 0) failed_rank_ = rank;
    }
    changed_.notify_all();
  }

 private:
  void require_all_alive(int rank) const {
    if (failed_rank_ >= 0)
      throw PeerError(fmt::format("rank {}: rank {} failed and will not arrive", rank, failed_rank_));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TensorView> shown_;
  int arrived_ = 0;
  uint64_t round_ = 0;
  int failed_rank_ = -1;
};

template <class T>
void add_elements(std::span<T> sum, std::span<const T> part) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
}

void add_into(TensorView sum, TensorView part) {
  switch (sum.dtype) {
    case DType::f32:
      return add_elements<float>(sum.as<float>(), part.as<float>());
    case DType::f64:
      return add_elements<double>(sum.as<double>(), part.as<double>());
    case DType::i64:
      return add_elements<int64_t>(sum.as<int64_t>(), part.as<int64_t>());
    default:
      CHECK_TRUE(false, "cannot sum {}", name_of(sum.dtype));
  }
}

class LocalGroup : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->ranks(); }
  uint64_t generation() const override { return 0; }
  const char* engine() const override { return "local"; }

  // Each rank sums its own chunk from all buffers and writes it to all of them.
  void all_reduce_sum(TensorView data) override {
    CHECK_TRUE(data.dtype == DType::f32 || data.dtype == DType::f64 || data.dtype == DType::i64, "cannot sum {}",
               name_of(data.dtype));
    if (size() == 1) return;
    meet_with(data);
    const TensorView own = chunk(data, rank_, size());
    scratch_.resize(own.bytes());
    const TensorView sum = {scratch_.data(), own.count, own.dtype};
    for (int peer = 0; peer < size(); ++peer) {
      const TensorView part = chunk(meeting_->shown()[peer], rank_, size());
      if (peer == 0) {
        copy_bytes(sum, part);
      } else {
        add_into(sum, part);
      }
    }
    for (const TensorView& peer : meeting_->shown()) copy_bytes(chunk(peer, rank_, size()), sum);
    meeting_->meet(rank_);
  }

  void broadcast(TensorView data, int root) override {
    if (size() == 1) return;
    meet_with(data);
    if (rank_ != root) copy_bytes(data, meeting_->shown()[root]);
    meeting_->meet(rank_);
  }

  void barrier() override { meeting_->meet(rank_); }

 private:
  void meet_with(TensorView data) {
    meeting_->show(rank_, data);
    meeting_->meet(rank_);
    for (const TensorView& peer : meeting_->shown()) CHECK_EQ(peer.bytes(), data.bytes());
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
  std::vector<std::byte> scratch_;
};

}  // namespace

std::unique_ptr<Group> make_local_group() { return std::make_unique<LocalGroup>(std::make_shared<Meeting>(1), 0); }

void run_ranks(int ranks, const std::function<void(Group&)>& body) {
  const auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<std::exception_ptr> failures(ranks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          LocalGroup group(meeting, rank);
          body(group);
        } catch (...) {
          failures[rank] = std::current_exception();
          meeting->fail(rank);
        }
      });
    }
  }
  // A PeerError only tells of another rank's failure: prefer the cause.
  std::exception_ptr consequence;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    try {
      std::rethrow_exception(failure);
    } catch (const PeerError&) {
      consequence = consequence ? consequence : failure;
    }
  }
  if (consequence) std::rethrow_exception(consequence);
}

}  // namespace paceline
