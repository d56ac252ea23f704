// The client's end: a channel, a call and a completion queue of its own, and the thread that empties the queue.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "paceline/core/check.h"
#include "paceline/core/thread_room.h"
#include "paceline/ps/endpoint.h"
#include "paceline/ps/transport_grpc.h"
#include "paceline/ps/transport_grpc_handshakes.h"
#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr size_t kReadAheadBytes = 4 << 20;  // received messages that wait for receive(); then the server has to wait

bool has_any(const std::string& text, std::initializer_list<const char*> parts) {  // in either case
  return std::ranges::any_of(parts, [&](std::string_view part) {
    return std::ranges::search(text, part, [](unsigned char a, unsigned char b) {
             return std::tolower(a) == std::tolower(b);
           }).begin() != text.end();
  });
}

// Why a call that never was accepted has failed, for people, and whether to try again is of any use.
struct OpeningFailure {
  enum class Kind : uint8_t { for_now, broken_off, refused };
  Kind kind;
  std::string why;
};

OpeningFailure opening_failure(const grpc::Status& status, const TransportSecurity& security) {
  using Kind = OpeningFailure::Kind;
  const std::string text = status.error_message();
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    const bool refused = status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                         status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
    return {refused ? Kind::refused : Kind::for_now, text.empty() ? "it closed the connection" : text};
  }
  if (has_any(text, {"connection refused", "no such file"})) return {Kind::for_now, "nobody listens there"};
  const bool dropped = has_any(text, {"socket closed", "reset", "broken pipe", "settings", "alert"});
  if (!security.tls()) {
    if (!dropped) return {Kind::for_now, text};
    return {Kind::broken_off,
            "it does not speak plaintext: if it wants TLS, give the authority of its certificate (--certs DIR)"};
  }
  if (has_any(text, {"certificate verify failed", "certificate_verify_failed"})) {
    return {Kind::refused,
            "its certificate is not signed by the authority that was given, or is not valid today; all processes of a "
            "run need the certificates of one authority (--certs DIR)"};
  }
  if (has_any(text, {"peer name", "hostname"})) {
    return {Kind::refused,
            "its certificate is for other hosts (subjectAltName); make one for this name ('paceline certs --hosts')"};
  }
  if (has_any(text, {"wrong version number", "wrong_version_number", "packet length"})) {
    return {Kind::refused, "it does not speak TLS; give the server certificates, too, or none here"};
  }
  if (!dropped) return {Kind::for_now, text};
  return {Kind::broken_off,
          security.certificate_pem.empty()
              ? "it refused a client without certificate: give one that its authority has signed (--certs DIR)"
              : "it refused this client's certificate: its authority has not signed it, or it is not valid today"};
}

class GrpcClientConnection final : public ClientConnection {
 public:
  GrpcClientConnection(const std::string& address, const std::string& target, const std::string& host, bool local,
                       const TransportSecurity& security, const TransportLimits& limits,
                       system_clock::time_point deadline);
  ~GrpcClientConnection() override;

  void send(Message message) override;
  void close(const std::string& reason) override;
  std::string peer() const override { return peer_; }
  Message receive(int64_t timeout_ms) override;

 private:
  enum class Event : uintptr_t { started, welcomed, read, written, writes_done, finished };

  // While it is being made: waits for this event, gives up at the deadline.
  bool await(Event wanted, system_clock::time_point deadline);
  [[noreturn]] void fail_to_open(const TransportSecurity& security, bool in_time);
  void run();
  void handle(Event event, bool ok);
  // With the mutex held:
  void* begin(Event event) {
    ++outstanding_;
    return reinterpret_cast<void*>(event);
  }
  void advance();                          // what is written next
  void start_read();                       // unless enough waits
  [[noreturn]] void throw_closed() const;  // REQUIRES: finished_

  const std::string address_;
  const TransportLimits limits_;
  std::string peer_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;

  std::mutex mutex_;
  std::condition_variable arrived_, sent_, over_;
  Outgoing outgoing_;
  std::deque<Message> inbox_;
  size_t inbox_bytes_ = 0;
  grpc::ByteBuffer incoming_;
  int outstanding_ = 0;
  bool reading_ = false, writing_ = false, writes_done_ = false, lost_ = false, finished_ = false;
  bool closing_ = false;  // by us
  std::string why_;
  grpc::Status status_;
  std::thread thread_;
};

GrpcClientConnection::GrpcClientConnection(const std::string& address, const std::string& target,
                                           const std::string& host, bool local, const TransportSecurity& security,
                                           const TransportLimits& limits, system_clock::time_point deadline)
    : address_(address), limits_(limits) {
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : transport_arguments(limits, local)) arguments.SetInt(name, value);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a TCP connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // would keep messages to send them again
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (security.tls()) {
    credentials = grpc::SslCredentials({security.authority_pem, security.key_pem, security.certificate_pem});
    arguments.SetSslTargetNameOverride(host);  // the target is an address already; the certificate has the name
  }
  channel_ = grpc::CreateCustomChannel(target, credentials, arguments);
  context_.AddMetadata(kTransportVersionKey, kTransportVersion);
  if (!security.token.empty()) context_.AddMetadata(kTransportTokenKey, token_proof(security.token));

  stream_ = grpc::GenericStub(channel_).PrepareCall(&context_, kTransportMethod, &queue_);
  stream_->StartCall(reinterpret_cast<void*>(Event::started));
  if (!await(Event::started, deadline)) fail_to_open(security, false);
  stream_->ReadInitialMetadata(reinterpret_cast<void*>(Event::welcomed));
  if (!await(Event::welcomed, deadline)) fail_to_open(security, false);
  const auto& metadata = context_.GetServerInitialMetadata();
  const auto version = metadata.find(kTransportVersionKey);
  if (version == metadata.end() || version->second != kTransportVersion) fail_to_open(security, true);
  peer_ = context_.peer();
  thread_ = start_quiet_thread([this] { run(); });
  const std::lock_guard lock(mutex_);
  start_read();
}

bool GrpcClientConnection::await(Event wanted, system_clock::time_point deadline) {
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT) return true;
  context_.TryCancel();
  queue_.Next(&tag, &ok);
  CHECK_EQ(reinterpret_cast<uintptr_t>(tag), static_cast<uintptr_t>(wanted));
  return false;
}

void GrpcClientConnection::fail_to_open(const TransportSecurity& security, bool in_time) {
  stream_->Finish(&status_, reinterpret_cast<void*>(Event::finished));
  // The reason is here or about to be; only who is no server of ours keeps the call open.
  await(Event::finished, system_clock::now() + milliseconds(kLingerMs));
  shut_down(queue_);
  if (!in_time) {
    throw PeerError(
        fmt::format("cannot connect to {}: it did not answer within {} ms", address_, limits_.connect_timeout_ms));
  }
  const OpeningFailure failure = opening_failure(status_, security);
  const std::string what = fmt::format("cannot connect to {}: {}", address_, failure.why);
  if (failure.kind == OpeningFailure::Kind::refused) throw RefusedError(what);
  if (failure.kind == OpeningFailure::Kind::broken_off) throw HandshakeError(what);
  throw PeerError(what);
}

GrpcClientConnection::~GrpcClientConnection() {
  close("the client is done");
  {
    std::unique_lock lock(mutex_);
    if (!over_.wait_for(lock, milliseconds(kLingerMs), [&] { return finished_; })) context_.TryCancel();
  }
  thread_.join();
}

void GrpcClientConnection::send(Message message) {
  check_outgoing(message, limits_);
  grpc::ByteBuffer buffer = to_wire(message);
  std::unique_lock lock(mutex_);
  sent_.wait(lock, [&] {
    return lost_ || closing_ || outgoing_.bytes() == 0 || outgoing_.bytes() + buffer.Length() <= limits_.queued_bytes;
  });
  if (closing_) throw PeerError(fmt::format("the connection to {} is closed: {}", address_, why_));
  if (lost_) {
    over_.wait(lock, [&] { return finished_; });  // the reason is on its way
    throw_closed();
  }
  outgoing_.add(std::move(buffer));
  advance();
}

void GrpcClientConnection::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (closing_ || lost_) return;
  closing_ = true;
  why_ = reason;
  outgoing_.add(goodbye_to_wire(reason));
  inbox_.clear();
  inbox_bytes_ = 0;
  start_read();
  advance();
  sent_.notify_all();
  arrived_.notify_all();
}

Message GrpcClientConnection::receive(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  if (!arrived_.wait_for(lock, milliseconds(timeout_ms), [&] { return !inbox_.empty() || finished_ || closing_; })) {
    throw PeerError(fmt::format("{} sent nothing for {} ms", address_, timeout_ms));
  }
  if (inbox_.empty()) {
    if (closing_) throw PeerError(fmt::format("the connection to {} is closed: {}", address_, why_));
    throw_closed();
  }
  Message message = std::move(inbox_.front());
  inbox_.pop_front();
  inbox_bytes_ -= message.head.size() + message.body.size();
  start_read();
  return message;
}

void GrpcClientConnection::throw_closed() const {
  std::string why = status_.error_message();
  if (status_.ok()) {
    why = "it ended";
  } else if (has_any(why, {"larger than max"})) {
    why = fmt::format("a message was larger than one side takes ({})", why);
  } else if (status_.error_code() == grpc::StatusCode::CANCELLED) {
    why = "it gave up on this client, which did not read what it was sent, or it stopped";
  } else if (status_.error_code() == grpc::StatusCode::UNAVAILABLE) {
    why = fmt::format("the connection was lost ({})", why);
  }
  throw PeerError(fmt::format("the server {} closed the connection: {}", address_, why));
}

void GrpcClientConnection::run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) handle(static_cast<Event>(reinterpret_cast<uintptr_t>(tag)), ok);
}

void GrpcClientConnection::handle(Event event, bool ok) {
  std::optional<WireMessage> received;
  std::string wrong;
  if (event == Event::read && ok) {
    try {
      received = from_wire(incoming_, limits_);
    } catch (const PeerError& failure) {
      wrong = failure.what();
    }
    incoming_.Clear();
  }
  const std::lock_guard lock(mutex_);
  switch (event) {
    case Event::read:
      reading_ = false;
      if (!wrong.empty()) {
        why_ = wrong;
        closing_ = true;
        context_.TryCancel();
      }
      if (!ok || !wrong.empty()) {
        lost_ = true;
        outgoing_.clear();
        stream_->Finish(&status_, begin(Event::finished));
        sent_.notify_all();
        arrived_.notify_all();
        break;
      }
      if (!closing_) {
        inbox_bytes_ += received->message.head.size() + received->message.body.size();
        inbox_.push_back(std::move(received->message));
        arrived_.notify_one();
      }
      start_read();
      break;
    case Event::written:
      writing_ = false;
      outgoing_.written();
      if (!ok) outgoing_.clear();  // the read that is under way ends, too
      advance();
      sent_.notify_all();
      break;
    case Event::finished:
      finished_ = true;
      arrived_.notify_all();
      over_.notify_all();
      break;
    default:
      break;
  }
  if (--outstanding_ == 0 && finished_) queue_.Shutdown();
}

void GrpcClientConnection::advance() {
  if (writing_ || lost_) return;
  if (!outgoing_.empty()) {
    grpc::WriteOptions options;
    if (outgoing_.several()) options.set_buffer_hint();  // the next follows at once
    writing_ = true;
    stream_->Write(outgoing_.take(), options, begin(Event::written));
  } else if (closing_ && !writes_done_) {
    writes_done_ = true;
    stream_->WritesDone(begin(Event::writes_done));
  }
}

void GrpcClientConnection::start_read() {
  if (reading_ || lost_ || inbox_bytes_ >= kReadAheadBytes) return;
  reading_ = true;
  stream_->Read(&incoming_, begin(Event::read));
}

}  // namespace

std::unique_ptr<ClientConnection> connect(const std::string& address, const TransportSecurity& security,
                                          const TransportLimits& limits) {
  const auto deadline = system_clock::now() + milliseconds(limits.connect_timeout_ms);
  const Endpoint endpoint = parse_endpoint(address);
  require_room_for_grpc();
  quiet_grpc();
  const StartDeadline start("gRPC", limits.connect_timeout_ms + kStartMs);
  if (!endpoint.socket_path.empty()) {
    check_client_security(security, address, true);
    return std::make_unique<GrpcClientConnection>(address, address, "localhost", true, security, limits, deadline);
  }
  const std::vector<ResolvedAddress> addresses = resolve(endpoint);
  check_client_security(security, address, std::ranges::all_of(addresses, &ResolvedAddress::local));
  for (size_t i = 0;; ++i) {
    const ResolvedAddress& at = addresses[i];
    const std::string target =
        at.ipv6 ? fmt::format("ipv6:%5B{}%5D:{}", at.host, at.port) : fmt::format("ipv4:{}:{}", at.host, at.port);
    try {
      return std::make_unique<GrpcClientConnection>(address, target, endpoint.host, at.local, security, limits,
                                                    deadline);
    } catch (const PeerError&) {
      if (i + 1 == addresses.size()) throw;
    }
  }
}

}  // namespace paceline
