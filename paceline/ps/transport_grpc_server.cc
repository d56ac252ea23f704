// The server's end: gRPC's asynchronous generic service. Every connection is a call that lives on one completion queue,
// every completion queue has one thread: a connection's events come one after the other. Connections are accepted by
// the front door: gRPC 1.51 takes a lack of descriptors for the end of its listener, and never accepts again.
#include <grpc/grpc_security_constants.h>
#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <array>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "paceline/core/check.h"
#include "paceline/ps/certificates.h"
#include "paceline/ps/endpoint.h"
#include "paceline/ps/front_door.h"
#include "paceline/ps/refusal_log.h"
#include "paceline/ps/transport_grpc.h"
#include "paceline/ps/transport_grpc_handshakes.h"
#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

class GrpcServer;

class ServedConnection final : public Connection, public std::enable_shared_from_this<ServedConnection> {
 public:
  enum class Event : uint8_t { arrived, welcomed, read, written, finished, lingered };
  struct Tag {
    ServedConnection* connection;
    Event event;
  };

  ServedConnection(GrpcServer& server, grpc::ServerCompletionQueue& queue);

  void send(Message message) override;
  void close(const std::string& reason) override;
  std::string peer() const override { return peer_; }
  CertifiedAs certified_as() const override { return certified_as_; }
  const std::string& address() const { return address_; }

  void request(grpc::AsyncGenericService& service);  // the next call that comes in is this one
  void handle(Event event, bool ok);                 // on the queue's thread

 private:
  // What is gRPC's: gone when the call is over, although the handler may still hold the connection.
  struct Call {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
    grpc::ByteBuffer incoming;
    grpc::Alarm linger;
  };

  void* begin(Event event) {  // an operation whose end comes as this event
    ++outstanding_;
    return &tags_[static_cast<size_t>(event)];
  }
  void arrive();
  std::string why_refused() const;
  void receive(bool ok);
  void call_handler(const std::function<void()>& call);
  // With the mutex held:
  void advance();                                                  // what is written next
  void end(grpc::StatusCode code, const std::string& reason);      // after what waits has been written
  void give_up(grpc::StatusCode code, const std::string& reason);  // at once

  GrpcServer& server_;  // outlives the call, not the connection
  grpc::ServerCompletionQueue& queue_;
  const TransportLimits limits_;
  std::array<Tag, 6> tags_;
  std::shared_ptr<ServedConnection> self_;  // while gRPC knows of it
  std::string address_, peer_;
  CertifiedAs certified_as_ = CertifiedAs::none;
  bool accepted_ = false;

  std::mutex mutex_;
  std::unique_ptr<Call> call_ = std::make_unique<Call>();
  Outgoing outgoing_;
  int outstanding_ = 0;
  bool writing_ = false, ending_ = false, finishing_ = false, lingering_ = false;
  grpc::Status status_;
  std::string why_;
};

class GrpcServer final : public TransportServer {
 public:
  GrpcServer(const std::string& address, const TransportSecurity& security, const TransportLimits& limits,
             ConnectionHandler& handler, int threads, Log* log);
  ~GrpcServer() override;
  std::string address() const override { return address_; }

  // For connections, on the queues' threads:
  const TransportLimits& limits() const { return limits_; }
  const std::string& proof() const { return proof_; }  // of the token; empty: none is asked for
  ConnectionHandler& handler() { return handler_; }
  RefusalLog& refusals() { return refusals_; }
  void expect_another(grpc::ServerCompletionQueue& queue);
  bool admit(const std::shared_ptr<ServedConnection>& connection);  // false: there are as many as may be
  size_t most_connections() const { return most_connections_; }
  void forget(const std::shared_ptr<ServedConnection>& connection);

 private:
  const TransportLimits limits_;
  const std::string proof_;
  ConnectionHandler& handler_;
  RefusalLog refusals_;
  std::optional<HandshakeWatch> handshakes_;  // with TLS
  std::string address_;
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  size_t most_connections_ = 0;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<FrontDoor> door_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::unordered_set<std::shared_ptr<ServedConnection>> open_;
};

grpc_ssl_client_certificate_request_type wanted_of_clients(const TransportSecurity& security) {
  if (security.authority_pem.empty()) return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  const bool may_lack_one = security.token_suffices && !security.token.empty();
  return may_lack_one ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                      : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
}

ServedConnection::ServedConnection(GrpcServer& server, grpc::ServerCompletionQueue& queue)
    : server_(server), queue_(queue), limits_(server.limits()) {
  for (size_t i = 0; i < tags_.size(); ++i) tags_[i] = {this, static_cast<Event>(i)};
}

void ServedConnection::request(grpc::AsyncGenericService& service) {
  self_ = shared_from_this();
  const std::lock_guard lock(mutex_);
  service.RequestCall(&call_->context, &call_->stream, &queue_, &queue_, begin(Event::arrived));
}

void ServedConnection::send(Message message) {
  check_outgoing(message, limits_);
  grpc::ByteBuffer buffer = to_wire(message);
  const std::lock_guard lock(mutex_);
  if (ending_) throw PeerError(fmt::format("the connection to {} is closed: {}", peer_, why_));
  if (outgoing_.bytes() > 0 && outgoing_.bytes() + buffer.Length() > limits_.queued_bytes) {
    give_up(grpc::StatusCode::RESOURCE_EXHAUSTED,
            fmt::format("{} bytes wait for a client that does not read them", outgoing_.bytes()));
    throw PeerError(fmt::format("the connection to {} is closed: {}", peer_, why_));
  }
  outgoing_.add(std::move(buffer));
  advance();
}

void ServedConnection::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  end(grpc::StatusCode::ABORTED, reason);
}

void ServedConnection::handle(Event event, bool ok) {
  switch (event) {
    case Event::arrived:
      if (ok) arrive();  // otherwise the server stops
      break;
    case Event::read:
      receive(ok);
      break;
    case Event::welcomed:
    case Event::written: {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      outgoing_.written();
      if (!ok) outgoing_.clear();  // the read that is under way ends, too
      advance();
      break;
    }
    case Event::finished: {
      const std::lock_guard lock(mutex_);
      if (lingering_) call_->linger.Cancel();
      break;
    }
    case Event::lingered:
      if (ok) {
        const std::lock_guard lock(mutex_);
        call_->context.TryCancel();
      }
      break;
  }
  {
    const std::lock_guard lock(mutex_);
    if (--outstanding_ > 0) return;
    call_.reset();
  }
  const std::shared_ptr<ServedConnection> self = std::move(self_);
  if (!accepted_) return;
  call_handler([&] { server_.handler().closed(self, why_); });
  server_.forget(self);
}

std::string ServedConnection::why_refused() const {
  const auto& metadata = call_->context.client_metadata();
  const auto version = metadata.find(kTransportVersionKey);
  if (call_->context.method() != kTransportMethod || version == metadata.end())
    return "this is no client of Paceline's";
  if (version->second != kTransportVersion) {
    return fmt::format("the server speaks version {} of the protocol; use the same Paceline on both sides",
                       kTransportVersion);
  }
  if (server_.proof().empty()) return "";
  const auto token = metadata.find(kTransportTokenKey);
  if (token == metadata.end()) return "it wants the run's token, and was given none";
  return same_proof({token->second.data(), token->second.size()}, server_.proof())
             ? ""
             : "the server refused this run's token; all processes of a run need the same one";
}

void ServedConnection::arrive() {
  server_.expect_another(queue_);
  peer_ = address_ = call_->context.peer();
  if (const auto identity = call_->context.auth_context(); identity && identity->IsPeerAuthenticated()) {
    for (const auto& name : identity->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
      peer_ += fmt::format(" ({})", std::string_view(name.data(), name.size()));
    }
    certified_as_ = CertifiedAs::nothing;
    for (const auto& certificate : identity->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
      certified_as_ = certificate_role({certificate.data(), certificate.size()});
    }
  }
  auto code = grpc::StatusCode::UNAUTHENTICATED;
  std::string refused = why_refused();
  if (refused.empty() && !server_.admit(shared_from_this())) {
    code = grpc::StatusCode::RESOURCE_EXHAUSTED;
    refused = fmt::format("the server has {} connections, and takes no more", server_.most_connections());
  }
  if (!refused.empty()) {
    server_.refusals().add(peer_, refused);
    const std::lock_guard lock(mutex_);
    end(code, refused);
    return;
  }
  accepted_ = true;
  {
    const std::lock_guard lock(mutex_);
    call_->context.AddInitialMetadata(kTransportVersionKey, kTransportVersion);
    writing_ = true;
    call_->stream.SendInitialMetadata(begin(Event::welcomed));
  }
  call_handler([&] { server_.handler().opened(self_); });
  const std::lock_guard lock(mutex_);
  if (!ending_) call_->stream.Read(&call_->incoming, begin(Event::read));
}

void ServedConnection::receive(bool ok) {
  Message message;
  {
    const std::lock_guard lock(mutex_);
    if (!ok) {
      give_up(grpc::StatusCode::ABORTED,
              fmt::format("the connection was lost, or brought a message of more than {} bytes", limits_.body_bytes));
      return;
    }
    if (ending_) return;  // what comes after a close is not looked at
    try {
      grpc::ByteBuffer incoming;
      incoming.Swap(&call_->incoming);
      WireMessage received = from_wire(incoming, limits_);
      if (received.goodbye) {
        give_up(grpc::StatusCode::OK, *received.goodbye);
        return;
      }
      message = std::move(received.message);
    } catch (const PeerError& failure) {
      give_up(grpc::StatusCode::RESOURCE_EXHAUSTED, failure.what());
      return;
    }
    // Before the handler is called, so that the next message comes while it works.
    call_->stream.Read(&call_->incoming, begin(Event::read));
  }
  call_handler([&] { server_.handler().received(self_, std::move(message)); });
}

void ServedConnection::call_handler(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& failure) {
    close(failure.what());
  }
}

void ServedConnection::advance() {
  if (writing_ || finishing_) return;
  if (!outgoing_.empty()) {
    grpc::WriteOptions options;
    if (outgoing_.several()) options.set_buffer_hint();  // the next follows at once
    writing_ = true;
    call_->stream.Write(outgoing_.take(), options, begin(Event::written));
  } else if (ending_) {
    finishing_ = true;
    call_->stream.Finish(status_, begin(Event::finished));
  }
}

void ServedConnection::end(grpc::StatusCode code, const std::string& reason) {
  if (ending_) return;
  ending_ = true;
  why_ = reason;
  status_ = grpc::Status(code, reason.substr(0, 1024));
  if (writing_) {
    lingering_ = true;
    call_->linger.Set(&queue_, system_clock::now() + milliseconds(kLingerMs), begin(Event::lingered));
  }
  advance();
}

void ServedConnection::give_up(grpc::StatusCode code, const std::string& reason) {
  outgoing_.clear();
  end(code, reason);
  if (writing_) call_->context.TryCancel();
}

GrpcServer::GrpcServer(const std::string& address, const TransportSecurity& security, const TransportLimits& limits,
                       ConnectionHandler& handler, int threads, Log* log)
    : limits_(limits),
      proof_(security.token.empty() ? "" : token_proof(security.token)),
      handler_(handler),
      refusals_(log) {
  CHECK_GE(threads, 1);
  const Endpoint endpoint = parse_endpoint(address);
  std::optional<ResolvedAddress> at;
  if (endpoint.socket_path.empty()) at = resolve(endpoint).front();
  const bool local = !at || at->local;
  check_server_security(security, address, local);
  quiet_grpc();
  if (security.tls() && log != nullptr) handshakes_.emplace(refusals_);

  auto listener = std::make_unique<Listener>(endpoint, at);
  grpc::ServerBuilder builder;
  for (const auto& [name, value] : transport_arguments(limits, local)) builder.AddChannelArgument(name, value);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, static_cast<int>(limits.connect_timeout_ms));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(limits.connect_timeout_ms));
  builder.RegisterAsyncGenericService(&service_);
  for (int i = 0; i < threads; ++i) queues_.push_back(builder.AddCompletionQueue());

  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (security.tls()) {
    grpc::SslServerCredentialsOptions options(wanted_of_clients(security));
    options.pem_root_certs = security.authority_pem;
    options.pem_key_cert_pairs.push_back({security.key_pem, security.certificate_pem});
    credentials = grpc::SslServerCredentials(options);
  }
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  server_ = builder.BuildAndStart();
  if (!server_) {
    for (const auto& queue : queues_) shut_down(*queue);
    throw PeerError(fmt::format("cannot serve at {}: gRPC does not start", address));
  }
  address_ = endpoint.text(listener->port());

  for (const auto& queue : queues_) {
    expect_another(*queue);
    threads_.push_back(start_quiet_thread([&queue = *queue] {
      void* tag = nullptr;
      bool ok = false;
      while (queue.Next(&tag, &ok)) {
        const auto* const next = static_cast<ServedConnection::Tag*>(tag);
        next->connection->handle(next->event, ok);
      }
    }));
  }
  const DescriptorBudget budget = descriptor_budget(static_cast<size_t>(limits.connections));
  most_connections_ = budget.connections;
  const int listens = listener->socket().number();
  const auto hand_on = [this, listens](int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listens;
    connection.fd = socket;
    acceptor_->HandleNewConnection(&connection);
  };
  door_ = std::make_unique<FrontDoor>(
      std::move(listener),
      FrontDoor::Options{
          .strangers = budget.strangers, .silence_ms = limits.connect_timeout_ms, .local = local, .hand_on = hand_on},
      refusals_);
}

GrpcServer::~GrpcServer() {
  {
    // Calls under way may still want to tell the door of a peer.
    std::unique_ptr<FrontDoor> door;
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    door = std::move(door_);
  }
  std::vector<std::shared_ptr<ServedConnection>> open;
  {
    const std::lock_guard lock(mutex_);
    open.assign(open_.begin(), open_.end());
  }
  for (const auto& connection : open) connection->close("the server stops");
  open.clear();
  server_->Shutdown(system_clock::now() + milliseconds(kLingerMs));  // returns when all calls are over
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void GrpcServer::expect_another(grpc::ServerCompletionQueue& queue) {
  const std::lock_guard lock(mutex_);
  if (!stopping_) std::make_shared<ServedConnection>(*this, queue)->request(service_);
}

bool GrpcServer::admit(const std::shared_ptr<ServedConnection>& connection) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || open_.size() >= most_connections_) return false;
  door_->knows(connection->address());
  return open_.insert(connection).second;
}

void GrpcServer::forget(const std::shared_ptr<ServedConnection>& connection) {
  const std::lock_guard lock(mutex_);
  open_.erase(connection);
}

}  // namespace

std::unique_ptr<TransportServer> serve(const std::string& address, const TransportSecurity& security,
                                       const TransportLimits& limits, ConnectionHandler& handler, int threads,
                                       Log* log) {
  return std::make_unique<GrpcServer>(address, security, limits, handler, threads, log);
}

}  // namespace paceline
