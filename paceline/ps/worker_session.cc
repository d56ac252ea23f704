#include "paceline/ps/worker_session.h"

#include <sys/random.h>

#include <algorithm>
#include <deque>

#include "paceline/core/check.h"
#include "paceline/core/clock.h"
#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

using std::chrono::milliseconds;
constexpr int64_t kSteadyNs = 1'000'000'000;  // a connection that lasted so long was a good one

int64_t now_ns() { return SteadyClock().now_ns(); }

uint64_t new_incarnation() {
  uint64_t bits = 0;
  while (bits == 0) {
    if (::getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) bits = 0;
  }
  return bits;
}

}  // namespace

ServerWorker::Session::Session(WorkerOptions options)
    : options_(std::move(options)), codec_(builtin_codecs().at(options_.codec)({})), inbox_(options_.map) {
  CHECK_EQ(options_.servers.size(), static_cast<size_t>(options_.map.shards()));
  CHECK_GE(options_.segment_elements, 1u);
  if (!codec_->fixed_length()) {
    throw UsageError(
        fmt::format("gradients for a parameter server cannot be sent as '{}': choose none, fp16, bf16, int8 or onebit",
                    options_.codec));
  }
  hello_ = {.role = PeerRole::worker,
            .id = options_.worker,
            .incarnation = new_incarnation(),
            .fingerprint = options_.map.fingerprint(),
            .run = options_.run,
            .settings = options_.settings};
  histories_.resize(options_.servers.size());
  lost_since_ns_ = now_ns();
  call_all();
  heart_ = start_quiet_thread([this] { beat(); });
}

ServerWorker::Session::~Session() {
  try {
    leave();
  } catch (const Error&) {
    // The servers are gone, or notice that this one is.
  }
}

void ServerWorker::Session::leave() {
  if (!left_) {
    left_ = true;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      stopping_.notify_all();
    }
    if (heart_.joinable()) heart_.join();
    try {
      if (joined_ && inbox_.is_open()) send(0, {to_wire(Head(LeaveHead{})), {}});
    } catch (const PeerError&) {
      // Its lease runs out, and that is the same.
    }
    inbox_.close();
  }
}

void ServerWorker::Session::beat() {
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, milliseconds(options_.heartbeat_ms), [&] { return stopped_; })) {
    lock.unlock();
    inbox_.send_aside({to_wire(Head(HeartbeatHead{})), {}});
    lock.lock();
  }
}

void ServerWorker::Session::lost(const PeerError& failure) {
  last_failure_ = failure.what();
  inbox_.close();
  sent_.clear();
  ++costs_.reconnects;
  const int64_t now = now_ns();
  if (!lost_since_ns_ || now - called_ns_ > kSteadyNs) {
    lost_since_ns_ = now;
    back_off_ = {};
  }
  if (options_.log != nullptr) options_.log->warning("worker {}: {}; it calls again", options_.worker, last_failure_);
}

void ServerWorker::Session::call_all() {
  CallsBrokenOff broken_off;
  for (;;) {
    int shard = 0;
    try {
      std::vector<ParameterInbox::Line> lines;
      for (; shard < options_.map.shards(); ++shard) {
        uint64_t& history = histories_[static_cast<size_t>(shard)];
        hello_.history = history;
        lines.push_back(call_server(options_.servers[static_cast<size_t>(shard)], shard, options_.map.shards(),
                                    options_.security, options_.limits, hello_, history));
      }
      called_ns_ = now_ns();
      inbox_.open(std::move(lines));
      return;
    } catch (const RefusedError&) {
      throw;
    } catch (const PeerError& failure) {
      last_failure_ = failure.what();
      broken_off.count(failure);
    }
    const double away_s = seconds_between(*lost_since_ns_, now_ns());
    if (away_s * 1e3 > static_cast<double>(options_.patience_ms)) {
      throw PeerError(fmt::format(
          "worker {} could not talk to server {} ({}) for {:.1f} s: {}; start it again with its state folder, or let "
          "workers wait longer (PACELINE_TIMEOUT, in seconds)",
          options_.worker, shard, options_.servers[static_cast<size_t>(shard)], away_s, last_failure_));
    }
    if (!sleep_unless(options_.stop, back_off_.next_ms())) throw PeerError(last_failure_);
  }
}

std::optional<Assignment> ServerWorker::Session::join(std::span<float> parameters) {
  CHECK_TRUE(!joined_, "worker {} has joined already", options_.worker);
  joined_ = true;
  return converse(nullptr, true, parameters);
}

std::optional<Assignment> ServerWorker::Session::push(std::span<const float> gradient, uint64_t samples, double rate,
                                                      std::span<float> parameters) {
  CHECK_TRUE(assignment_.has_value(), "worker {} has nothing to push for", options_.worker);
  CHECK_EQ(gradient.size(), options_.map.total());
  const Push push = {
      gradient, {.sequence = assignment_->sequence, .version = assignment_->version, .samples = samples, .rate = rate}};
  auto next = converse(&push, false, parameters);
  ++costs_.pushes;
  return next;
}

// Says it, and waits for what comes next. `joins`: it is a join that is said, otherwise the push.
std::optional<Assignment> ServerWorker::Session::converse(const Push* push, bool joins, std::span<float> parameters) {
  CHECK_TRUE(!left_, "worker {} has left", options_.worker);
  CHECK_EQ(parameters.size(), options_.map.total());
  for (;;) {
    try {
      const int64_t began_ns = now_ns();
      if (!inbox_.is_open()) {
        const int64_t wait_ms = lost_since_ns_ ? back_off_.next_ms() : 0;
        if (lost_since_ns_ && (now_ns() - *lost_since_ns_) / 1'000'000 > options_.patience_ms) {
          throw RefusedError(fmt::format("worker {} was turned away for {} ms: {}", options_.worker,
                                         options_.patience_ms, last_failure_));
        }
        if (!sleep_unless(options_.stop, wait_ms)) throw RefusedError(last_failure_);
        call_all();
        joins = true;  // the servers may have lost everything that was on its way
      }
      inbox_.expect();
      if (joins) {
        send(0, {to_wire(Head(JoinHead{})), {}});
      } else {
        send_push(*push);
      }
      const int64_t sent_ns = now_ns();
      const GoHead go = inbox_.wait_go();
      const int64_t released_ns = now_ns();
      costs_.push_s += seconds_between(began_ns, sent_ns);
      costs_.wait_s += seconds_between(sent_ns, released_ns);
      lost_since_ns_.reset();
      back_off_ = {};
      if (go.over) {
        sent_.clear();
        assignment_.reset();
        return {};
      }
      // What was pushed before has not arrived where the assignment is still the same.
      const bool again = joins && push != nullptr && go.assignment == assignment_;
      inbox_.accept(again ? std::span<float>() : parameters);
      inbox_.wait_parameters();
      costs_.pull_s += seconds_between(released_ns, now_ns());
      joins = false;
      if (again) continue;
      sent_.clear();
      assignment_ = go.assignment;
      return assignment_;
    } catch (const RefusedError&) {
      inbox_.close();  // before the caller's memory goes, of which some may still be on its way
      throw;
    } catch (const PeerError& failure) {
      lost(failure);
    }
  }
}

void ServerWorker::Session::push_ready(std::span<const float> gradient, uint64_t begin, uint64_t count) {
  CHECK_TRUE(assignment_.has_value(), "worker {} has nothing to push for", options_.worker);
  CHECK_EQ(gradient.size(), options_.map.total());
  CHECK_LE(begin, gradient.size());
  CHECK_LE(count, gradient.size() - begin);
  if (!inbox_.is_open()) return;
  const Push push = {gradient, {.sequence = assignment_->sequence, .version = assignment_->version, .samples = 1}};
  const int64_t began_ns = now_ns();
  try {
    CHECK_TRUE(sent_.add(begin, count), "elements {} to {} are ready twice", begin, begin + count);
    for (int shard = 0; shard < options_.map.shards(); ++shard) {
      uint64_t at = std::max(begin, options_.map.first(shard));
      const uint64_t end = std::min(begin + count, options_.map.first(shard) + options_.map.count(shard));
      while (at < end) {
        const uint64_t part = std::min(end - at, options_.segment_elements);
        send_segment(shard, push, at, part, false);
        at += part;
      }
    }
  } catch (const PeerError& failure) {
    lost(failure);
  }
  costs_.push_s += seconds_between(began_ns, now_ns());
}

void ServerWorker::Session::send_push(const Push& push) {
  const auto shards = static_cast<size_t>(options_.map.shards());
  std::vector<std::deque<std::pair<uint64_t, uint64_t>>> segments(shards);
  for (size_t shard = 0; shard < shards; ++shard) {
    const uint64_t first = options_.map.first(static_cast<int>(shard));
    for (auto [begin, count] : sent_.missing(first, first + options_.map.count(static_cast<int>(shard)))) {
      for (; count > 0;
           begin += std::min(count, options_.segment_elements), count -= std::min(count, options_.segment_elements)) {
        segments[shard].emplace_back(begin, std::min(count, options_.segment_elements));
      }
    }
    if (segments[shard].empty()) segments[shard].emplace_back(first, 0);  // only that it is all
  }
  for (bool more = true; more;) {  // in turn, so that all servers have something to do
    more = false;
    for (size_t shard = 0; shard < shards; ++shard) {
      if (segments[shard].empty()) continue;
      const auto [begin, count] = segments[shard].front();
      segments[shard].pop_front();
      send_segment(static_cast<int>(shard), push, begin, count, segments[shard].empty());
      more = true;
    }
  }
}

void ServerWorker::Session::send_segment(int shard, const Push& push, uint64_t begin, uint64_t count, bool last) {
  const std::span<const float> values = push.gradient.subspan(begin, count);
  const PushHead head = {.push = push.news, .offset = begin - options_.map.first(shard), .count = count, .last = last};
  Body body(std::as_bytes(values), nullptr);
  if (options_.codec != "none") {
    const size_t most = codec_->most_bytes(count);
    const auto wire = std::make_shared<std::vector<float>>((most + sizeof(float) - 1) / sizeof(float));
    const size_t bytes = codec_->encode(values, std::as_writable_bytes(std::span(*wire)), {});
    body = Body(std::as_bytes(std::span(*wire)).first(bytes), wire);
  }
  costs_.bytes_sent += body.size();
  send(shard, {to_wire(Head(head)), std::move(body)});
}

void ServerWorker::Session::send(int shard, Message message) {
  const auto line = inbox_.line(shard);
  if (!line) throw PeerError("the connection is closed");
  line->send(std::move(message));
}

void ServerWorker::Session::send_statistics(std::span<const float> statistics) {
  const auto copy = std::make_shared<std::vector<float>>(statistics.begin(), statistics.end());
  try {
    if (inbox_.is_open()) send(0, {to_wire(Head(StatisticsHead{})), Body(std::as_bytes(std::span(*copy)), copy)});
  } catch (const PeerError& failure) {
    lost(failure);
  }
}

ServerWorker::Costs ServerWorker::Session::costs() const {
  Costs costs = costs_;
  costs.bytes_received = inbox_.received_bytes();
  return costs;
}

}  // namespace paceline
