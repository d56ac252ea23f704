#include "paceline/rendezvous/store_client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "paceline/comm/death_text.h"
#include "paceline/rendezvous/socket.h"
#include "paceline/rendezvous/store_protocol.h"

namespace paceline {
namespace {

constexpr int64_t kFarewellMs = 1000;
constexpr const char* kClosed = "somebody listens there but closes the connection";

std::string seconds(int64_t ms) { return fmt::format("{:.1f} s", static_cast<double>(ms) * 1e-3); }

bool fatal(const StoreNews& news) { return news.kind == StoreNews::Kind::died || news.kind == StoreNews::Kind::failed; }

}  // namespace

std::string failure_text(const StoreNews& news) {
  if (news.kind == StoreNews::Kind::died && news.text == kConnectionLost)
    return death_text(fmt::format("rank {}", news.rank), news.text);
  if (news.kind == StoreNews::Kind::died) return fmt::format("rank {} died: {}", news.rank, news.text);
  if (news.text.starts_with("rank ")) return news.text;  // it says whose it is
  return fmt::format("rank {} reported: {}", news.rank, news.text);
}

class StoreClient::Connection {
 public:
  Connection(const Options& options, const Secret& secret)
      : options_(options), where_(address_text(options.host, options.port)) {
    const Deadline deadline(options.timeout_ms);
    auto pause = std::chrono::milliseconds(5);
    std::string why_not;
    while (!connect(secret, deadline, why_not)) {
      if (deadline.passed()) fail_to_connect(why_not);
      std::this_thread::sleep_for(std::min(pause, std::chrono::milliseconds(deadline.poll_ms())));
      pause = std::min(pause * 2, std::chrono::milliseconds(200));
    }
  }

  ~Connection() {
    if (!options_.watching) return;
    // Until the server closes: it might miss the farewell if this end closed first with news unread.
    const Deadline deadline(kFarewellMs);
    if (!write_all(socket_, encode(Farewell{}), deadline)) return;
    std::string ignored;
    while (wait_to_read(socket_, deadline) && read_some(socket_, ignored) != Transfer::closed) ignored.clear();
  }

  std::string local_address() const { return local_address_of(socket_).host; }
  int descriptor() const { return socket_.number(); }

  template <class Message>
  void tell(const Message& message) {
    if (write_all(socket_, encode(message), Deadline(options_.timeout_ms))) return;
    lost_ = network_failed();
    fail_gone();
  }

  void set(const std::string& key, const std::string& value) {
    tell(Set{++request_, key, value});
    if (!await<Stored>(Deadline(options_.timeout_ms)))
      throw PeerError(fmt::format("the store at {} did not answer within {}", where_, seconds(options_.timeout_ms)));
  }

  std::string get(const std::string& key, int64_t timeout_ms) {
    tell(Get{++request_, key});
    auto value = await<Value>(Deadline(timeout_ms));
    if (!value)
      throw PeerError(
          fmt::format("no rank has set \"{}\" at the store {} within {}: some rank has not come this far; "
                      "its own output says why",
                      key, where_, seconds(timeout_ms)));
    return std::move(value->value);
  }

  std::vector<StoreNews> news() {
    Transfer transfer = Transfer::some;
    while (transfer == Transfer::some) transfer = read();
    while (next_frame()) {  // nobody waits for an answer now: only news count
    }
    if (news_.empty() && transfer == Transfer::closed) fail_gone();
    return std::exchange(news_, {});
  }

 private:
  // The answer to the last request; nothing when the deadline passed. News are kept.
  template <class Message>
  std::optional<Message> await(const Deadline& deadline) {
    for (;;) {
      while (auto frame = next_frame()) {
        if (frame->kind != Message::kKind) continue;  // a late answer to a get() that had given up
        Message message = decode<Message>(*frame);
        if (message.request == request_) return message;
      }
      for (const StoreNews& news : news_) {
        if (fatal(news)) throw PeerError(failure_text(news));
      }
      if (!wait_to_read(socket_, deadline)) return {};
      if (read() == Transfer::closed) fail_gone();
    }
  }

  // false, and why: nobody is there yet, or somebody who cannot talk yet.
  bool connect(const Secret& secret, const Deadline& deadline, std::string& why_not) {
    auto socket = try_to_connect(options_.host, options_.port, deadline, why_not);
    if (!socket) return false;
    socket_ = std::move(*socket);
    frames_ = FrameReader(kStrangerFrameBytes);
    try {
      return introduce(secret, deadline, why_not);
    } catch (const ProtocolError& error) {
      throw PeerError(fmt::format("{} is not the store of a Paceline run (it sent {}): another program listens there",
                                  where_, error.what()));
    }
  }

  bool introduce(const Secret& secret, const Deadline& deadline, std::string& why_not) {
    const auto challenge_frame = await_frame(deadline, why_not);
    if (!challenge_frame) return false;
    const auto challenge = decode<Challenge>(*challenge_frame);
    if (challenge.magic != Challenge{}.magic) throw ProtocolError("another greeting");
    if (challenge.protocol != kStoreProtocol)
      throw PeerError(
          fmt::format("the store at {} is of another version of Paceline (its protocol is {}, ours {}): all "
                      "ranks must run the same",
                      where_, challenge.protocol, kStoreProtocol));

    Hello hello{random_nonce(), options_.rank, options_.generation, options_.watching, {}};
    hello.proof = client_proof(secret, challenge.nonce, hello);
    if (!write_all(socket_, encode(hello), deadline)) {
      why_not = kClosed;
      return false;
    }
    const auto answer = await_frame(deadline, why_not);
    if (!answer) return false;
    if (answer->kind == FrameKind::refusal) fail_refused(decode<Refusal>(*answer).why);
    if (!equal_proofs(decode<Welcome>(*answer).proof, server_proof(secret, challenge.nonce, hello)))
      throw PeerError(
          fmt::format("the store at {} does not know the secret of this run and is not trusted; "
                      "PACELINE_SECRET must be the same on all ranks",
                      where_));
    frames_.set_most_bytes(kFrameBytes);
    return true;
  }

  std::optional<Frame> await_frame(const Deadline& deadline, std::string& why_not) {
    for (;;) {
      if (auto frame = frames_.next()) return frame;
      why_not = "somebody listens there but says nothing";
      if (!wait_to_read(socket_, deadline)) return {};
      why_not = kClosed;
      if (read() == Transfer::closed) return {};
    }
  }

  [[noreturn]] void fail_to_connect(const std::string& why_not) const {
    throw PeerError(
        fmt::format("rank {} cannot reach the store at {} (tried for {}): {}; is the launcher (or rank 0) "
                    "running, and does no firewall stand between?",
                    options_.rank, where_, seconds(options_.timeout_ms), why_not));
  }

  // Whoever refuses may be a stranger: nothing but letters goes on to a terminal.
  [[noreturn]] void fail_refused(std::string why) const {
    std::ranges::replace_if(
        why, [](unsigned char letter) { return letter < ' ' || letter > '~'; }, '?');
    throw PeerError(fmt::format("the store at {} turned rank {} away: {}", where_, options_.rank, why));
  }

  [[noreturn]] void fail_gone() const {
    if (lost_)
      throw PeerError(
          fmt::format("no connection to the rendezvous store at {} any more ({})", where_, kConnectionLost));
    throw PeerError(fmt::format("the rendezvous store is gone (its process died); it was at {}", where_));
  }

  Transfer read() {
    const Transfer transfer = read_some(socket_, frames_.input());
    lost_ = transfer == Transfer::closed && network_failed();
    return transfer;
  }

  // The next frame that is no news; those are kept.
  std::optional<Frame> next_frame() {
    try {
      while (auto frame = frames_.next()) {
        if (frame->kind != FrameKind::news) return frame;
        news_.push_back(from_wire(decode<News>(*frame)));
      }
      return {};
    } catch (const ProtocolError& error) {
      throw PeerError(
          fmt::format("the store at {} sent {}: it is of another version of Paceline", where_, error.what()));
    }
  }

  Options options_;
  std::string where_;
  Descriptor socket_;
  FrameReader frames_{kStrangerFrameBytes};
  std::vector<StoreNews> news_;
  uint64_t request_ = 0;
  bool lost_ = false;  // the connection, because the network failed
};

StoreClient::StoreClient(const Options& options, const Secret& secret)
    : connection_(std::make_unique<Connection>(options, secret)) {}
StoreClient::~StoreClient() = default;

void StoreClient::set(const std::string& key, const std::string& value) {
  CHECK_LE(key.size(), kMostKeyBytes);
  CHECK_LE(value.size(), kMostValueBytes);
  connection_->set(key, value);
}

std::string StoreClient::get(const std::string& key, int64_t timeout_ms) {
  CHECK_LE(key.size(), kMostKeyBytes);
  return connection_->get(key, timeout_ms);
}

std::string StoreClient::local_address() const { return connection_->local_address(); }
int StoreClient::descriptor() const { return connection_->descriptor(); }
std::vector<StoreNews> StoreClient::news() { return connection_->news(); }

void StoreClient::report(const std::string& group, const std::vector<int>& world_ranks, const RankStatus& mine) {
  connection_->tell(Report{group, world_ranks, {mine}});
}

void StoreClient::answer(const std::string& group, const RankStatus& mine) { connection_->tell(Answer{group, {mine}}); }

void StoreClient::fail(const std::string& text) { connection_->tell(Failure{text}); }

}  // namespace paceline
