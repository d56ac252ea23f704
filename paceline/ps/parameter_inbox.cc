#include "paceline/ps/parameter_inbox.h"

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

constexpr int64_t kDayMs = 86'400'000;  // others may take their time; that the server is there, the transport knows

}  // namespace

ParameterInbox::ParameterInbox(const ShardMap& map) : map_(map) {}

ParameterInbox::~ParameterInbox() { close(); }

void ParameterInbox::open(std::vector<Line> lines) {
  CHECK_TRUE(!is_open(), "the inbox is open already");
  CHECK_EQ(lines.size(), static_cast<size_t>(map_.shards()));
  const std::lock_guard lock(mutex_);
  closing_ = accepting_ = false;
  broken_.reset();
  go_.reset();
  finished_ = 0;
  lines_ = std::move(lines);
  for (int shard = 0; shard < map_.shards(); ++shard) {
    threads_.push_back(start_quiet_thread([this, shard, line = lines_[static_cast<size_t>(shard)]] {
      try {
        receive(shard, *line);
      } catch (const std::exception& failure) {
        const std::lock_guard breaking(mutex_);
        if (!broken_) broken_ = failure.what();
        changed_.notify_all();
      }
    }));
  }
}

void ParameterInbox::close() {
  std::vector<Line> lines;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    lines.swap(lines_);
    changed_.notify_all();
  }
  for (const Line& line : lines) line->close("the worker is done, or calls again");
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  const std::lock_guard alone(aside_);
  lines.clear();  // what was being sent, from the caller's memory, is let go here
}

void ParameterInbox::send_aside(Message message) {
  const std::lock_guard lock(aside_);
  try {
    if (const Line to = line(0)) to->send(std::move(message));
  } catch (const PeerError&) {
    // Whoever waits for an answer notices, too.
  }
}

ParameterInbox::Line ParameterInbox::line(int shard) const {
  const std::lock_guard lock(mutex_);
  return lines_.empty() ? nullptr : lines_[static_cast<size_t>(shard)];
}

void ParameterInbox::check() const {
  if (broken_) throw PeerError(*broken_);
}

void ParameterInbox::expect() {
  const std::lock_guard lock(mutex_);
  check();
  if (go_) finished_ = std::max(finished_, go_->index);
  go_.reset();
  accepting_ = false;
}

GoHead ParameterInbox::wait_go() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return go_ || broken_; });
  if (!go_) check();
  return *go_;
}

void ParameterInbox::accept(std::span<float> into) {
  const std::lock_guard lock(mutex_);
  CHECK_TRUE(into.empty() || into.size() == map_.total(), "parameters of {} elements, not {}", into.size(),
             map_.total());
  into_ = into;
  arrived_.assign(static_cast<size_t>(map_.shards()), 0);
  missing_ = static_cast<size_t>(map_.shards());
  accepting_ = true;
  changed_.notify_all();
}

void ParameterInbox::wait_parameters() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return missing_ == 0 || broken_; });
  if (missing_ > 0) check();
}

uint64_t ParameterInbox::received_bytes() const {
  const std::lock_guard lock(mutex_);
  return received_bytes_;
}

void ParameterInbox::receive(int shard, ClientConnection& line) {
  for (;;) {
    const Message message = line.receive(kDayMs);
    const Head head = head_from(message.head);
    if (const auto* go = std::get_if<GoHead>(&head); go && shard == 0) {
      const std::lock_guard lock(mutex_);
      go_ = *go;
      changed_.notify_all();
    } else if (const auto* parameters = std::get_if<ParametersHead>(&head)) {
      take(shard, *parameters, message.body);
    } else {
      throw PeerError(fmt::format("shard {} sent what is not for workers", shard));
    }
  }
}

void ParameterInbox::take(int shard, const ParametersHead& head, const Body& body) {
  std::unique_lock lock(mutex_);
  received_bytes_ += body.size();
  if (head.index <= finished_) return;
  // Shard 0 sends the Go first. What comes without one is of a release from before this connection was made, which a
  // server that was killed has carried out now.
  if (shard == 0 && (!go_ || go_->index < head.index)) return;
  // Another shard may be faster than the Go that tells what to do with this.
  changed_.wait(lock, [&] { return closing_ || (accepting_ && go_ && go_->index >= head.index); });
  if (closing_ || go_->index != head.index) return;
  uint64_t& arrived = arrived_[static_cast<size_t>(shard)];
  const uint64_t count = map_.count(shard);
  if (head.offset != arrived || head.count > count - arrived || body.size() != head.count * sizeof(float) ||
      head.last != (arrived + head.count == count)) {
    throw PeerError(fmt::format("shard {} sent elements {} to {} where {} of {} were there", shard, head.offset,
                                head.offset + head.count, arrived, count));
  }
  const std::span<float> into = into_.empty() ? into_ : into_.subspan(map_.first(shard) + head.offset, head.count);
  lock.unlock();  // whoever waits for it leaves it alone
  if (!into.empty()) body.copy_to(std::as_writable_bytes(into));
  lock.lock();
  arrived += head.count;
  if (head.last && --missing_ == 0) changed_.notify_all();
}

}  // namespace paceline
